"""`python -m retinue.worker.suspects.solo`: a process that has one run to itself, started by a worker.

It has the worker's settings, agents and directory, and no broker: its worker tells it what to run, one run at
a time (the lines are described in solo_process.py). It outlives its worker only to hand back what it holds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from celery import Celery

from retinue.broker.envelope import WakeUpKind
from retinue.contract import RetinueError
from retinue.worker.bootstrap import Prepared, prepare
from retinue.worker.pool.reports import Failed, ReceivedWakeUp, Revoked, TaskReport
from retinue.worker.process.exhaustion import end_if_exhausted
from retinue.worker.runtime import WorkerRuntime

_log = logging.getLogger("retinue.worker")
_ALIVE_EVERY_S: Final = 0.5
_STOP_SLACK_S: Final = 10.0
"""What it may take to stop beyond drain_seconds before it just ends, in seconds."""


class Channel:
    """Lines for the worker. Taken from standard output, which the run's own code may write to.

    It stands in for the pool as well: there is one slot, and no need for another.
    """

    limit = 1
    node_name = ""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)

    def say(self, *words: object) -> None:
        """Sends a line. From any OS thread; a worker that is gone hears nothing."""
        with suppress(OSError):
            os.write(self._out, json.dumps(words).encode() + b"\n")  # short, so it is written as one

    def lend(self) -> None:
        """The run waits for others."""
        self.say("wait")

    def take_back(self) -> None:
        """The run goes on."""
        self.say("return")

    def look_again(self) -> None:
        """Nothing is popped here."""

    def if_full(self, call: Callable[[], None]) -> None:
        """Nobody asks a process that has one run to itself."""


class SoloWorker:
    """Runs what the worker says, until it says no more.

    Args:
        runtime: Executes it.
        channel: To the worker.
        drain_s: How long a run may take to reach its boundary once it is over, in seconds.
    """

    def __init__(self, runtime: WorkerRuntime, channel: Channel, *, drain_s: float) -> None:
        self._runtime = runtime
        self._channel = channel
        self._drain_s = drain_s
        self._over = asyncio.Event()
        self._hurried = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Gets ready, and returns when all is handed back."""
        loop = asyncio.get_running_loop()
        await self._runtime.start()
        loop.add_signal_handler(signal.SIGTERM, self._end_sooner)
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        listening, beating = (asyncio.create_task(work) for work in (self._listen(lines), self._beat()))
        for task in (listening, beating):
            task.add_done_callback(end_if_exhausted)
        await self._over.wait()
        listening.cancel()
        # Whatever its run's code holds up: nobody waits for this process any more.
        loop.call_later(0, _end_within, self._drain_s + _STOP_SLACK_S)
        await self._stop()
        self._channel.say("over")
        beating.cancel()

    def _end_sooner(self) -> None:
        if self._over.is_set():
            self._hurried.set()
        self._over.set()

    async def _stop(self) -> None:
        stopping = asyncio.create_task(self._runtime.stop(self._drain_s))
        hurried = asyncio.create_task(self._hurried.wait())
        await asyncio.wait((stopping, hurried), return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await self._runtime.stop(0)

    async def _listen(self, lines: asyncio.StreamReader) -> None:
        own = set(threading.enumerate())
        try:
            while line := await lines.readline():
                tenant, run_id = json.loads(line)
                self._running = asyncio.create_task(self._run(tenant, run_id, own))
        finally:
            self._over.set()

    async def _run(self, tenant: str, run_id: str, own: set[threading.Thread]) -> None:
        wakeup = ReceivedWakeUp(tenant, run_id, 0, WakeUpKind.RESUME, "")
        report = await self._runtime.run(wakeup)
        # A tool that did not return in time may still break what comes next.
        left = [thread for thread in threading.enumerate() if thread not in own]
        is_fit = all(thread.name.startswith("asyncio_") for thread in left)
        self._channel.say("done", *_words(report), is_fit)

    async def _beat(self) -> None:
        while True:
            self._channel.say("alive")
            await asyncio.sleep(_ALIVE_EVERY_S)


def main() -> None:
    """Runs until standard input ends, or SIGTERM."""
    channel = Channel()
    from retinue.worker.celery import app

    level = int(sys.argv[1]) if len(sys.argv) > 1 else logging.INFO
    logging.basicConfig(level=level, format=app.conf.worker_log_format)
    try:
        prepared = prepare()
    except RetinueError as fault:
        raise SystemExit(f"retinue: {fault}") from fault
    asyncio.run(_serve(app, channel, prepared))


async def _serve(app: Celery, channel: Channel, prepared: Prepared) -> None:
    runtime = WorkerRuntime(app, channel, prepared, alone=True)
    await SoloWorker(runtime, channel, drain_s=prepared.settings.drain_seconds).serve()


def _words(report: TaskReport) -> tuple[str, str]:
    match report:
        case Failed(classification=classification):
            return "failed", classification.value
        case Revoked(reason=reason):
            return "revoked", reason
        case _:
            return "succeeded", report.line


def _end_within(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
