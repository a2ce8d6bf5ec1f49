"""A worker app whose runs do what a list on the server tells them: the Celery side without agents.

`celery -A dummy_runtime worker` with this directory on the path. What a run does stands in the hash
`do` under its id (nothing = it ends at once); what happened is pushed to lists, which tests wait for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from typing import Any

from celery import Celery

from retinue.contract.classification import ErrorClassification
from retinue.contract.errors import StoreMemoryError, StoreUnavailableError
from retinue.store.connections.link import AsyncLink
from retinue.worker.celery import app
from retinue.worker.pool.run_pool import Failed, ReceivedWakeUp, Revoked, RunPool, Succeeded, TaskReport

app.conf["retinue_runtime"] = "dummy_runtime:DummyRuntime"
if "DUMMY_QUEUES" in os.environ:
    app.conf["retinue_queues"] = lambda app: os.environ["DUMMY_QUEUES"].split(",")

_POLL_S = 0.02
_PUSH_ONCE = "if redis.call('SADD', 'noted', ARGV[2]) == 1 then redis.call('RPUSH', KEYS[1], ARGV[1]) end"


class DummyRuntime:
    takes_work = True

    def __init__(self, app: Celery, pool: RunPool) -> None:
        self.pool = pool
        self.link = AsyncLink(os.environ["RETINUE_STORE_URL"])
        self.draining = asyncio.Event()
        self.idle = asyncio.Event()
        self.cancelled: set[str] = set()
        self.running = 0
        self.notes: set[asyncio.Task[Any]] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        await self._note("process", self.pool.process_id)

    async def run(self, task: ReceivedWakeUp) -> TaskReport:
        self.running += 1
        self.idle.clear()
        try:
            await self._note("started", task.task_id)
            return await self._act(task.run_id)
        finally:
            self.running -= 1
            if not self.running:
                self.idle.set()

    def revoke(self, run_id: str, terminate: bool) -> None:
        self.cancelled.add(run_id)
        assert self.loop is not None
        how = "terminate" if terminate else "plain"
        self.loop.call_soon_threadsafe(self._note_soon, "revoked", f"{run_id} {how}")

    def take_canary(self, nonce: str) -> None:
        self._note_soon("canaries", nonce)

    async def stop(self, timeout_s: float) -> None:
        self._note_soon("stopping", f"{timeout_s:g}")  # refused while the server is at its memory limit
        self.draining.set()
        if self.running and timeout_s:
            try:
                async with asyncio.timeout(timeout_s):
                    await self.idle.wait()
            except TimeoutError:
                pass

    async def _act(self, run_id: str) -> TaskReport:
        match await self._call("HGET", "do", run_id):
            case b"crash":
                raise KeyError("a secret prompt")
            case b"exit":
                sys.exit("a secret prompt")
            case b"fail":
                return Failed(ErrorClassification.TOOL_ERROR)
            case b"hold":
                ended = await self._until_released(run_id)
            case b"stubborn":
                ended = await self._until_released(run_id, stubborn=True)
            case b"lend":
                ended = await self._lend(run_id)
            case _:
                ended = None
        if ended is not None:
            return ended
        await self._note("done", run_id)
        return Succeeded("SUCCEEDED, 1 iteration")

    async def _lend(self, run_id: str) -> TaskReport | None:
        await asyncio.sleep(5 * _POLL_S)  # until Celery's loop waits for its sockets
        self.pool.lend()
        await self._until_released(run_id)
        self.pool.take_back()
        # At this instant the worker's pop, which was sent while there was room, is still waiting.
        message = await self._call("GET", "message")
        if message is not None:
            await self._call("LPUSH", "retinue", message)
        await self._note("taken_back", run_id)
        return await self._until_released(f"{run_id} again")

    async def _until_released(self, key: str, *, stubborn: bool = False) -> TaskReport | None:
        while not await self._call("SISMEMBER", "released", key):
            if key in self.cancelled:
                return Revoked("cancelled")
            if self.draining.is_set() and not stubborn:
                return Succeeded("handed back")
            await asyncio.sleep(_POLL_S)
        return None

    def _note_soon(self, key: str, value: str) -> None:
        task = asyncio.ensure_future(self._note(key, value))
        self.notes.add(task)
        task.add_done_callback(self.notes.discard)

    async def _note(self, key: str, value: str) -> None:
        """Pushed once, though the reply may be lost and the command repeated."""
        await self._call("EVAL", _PUSH_ONCE, 1, key, value, uuid.uuid4().hex)

    async def _call(self, *command: str | bytes | int) -> Any:
        while True:
            try:
                return await self.link.execute(*command)
            except (StoreUnavailableError, StoreMemoryError):
                await asyncio.sleep(_POLL_S)
