"""A process that has one run to itself, as the worker sees it that started it.

It is told a run by a line of JSON on its standard input, and answers by such lines on its standard output:
`["alive"]` twice a second from when it is ready, `["wait"]` and `["return"]` around a wait for other runs, in
the end `["done", kind, text, whether it is fit for another run]`, and `["over"]` once it has handed back all
that it held. The end of its input means that it is to stop; SIGTERM after that, that it is to do so at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from retinue.contract import RetinueError
from retinue.contract.classification import ErrorClassification
from retinue.store.call import RunKey
from retinue.worker.pool.reports import Failed, Revoked, Succeeded, TaskReport

MODULE: Final = "retinue.worker.suspects.solo"
STARTS_WITHIN_S: Final = 60.0
"""How long it may take to get ready, in seconds: it imports what its worker has."""

_KILLED_S: Final = 2.0
"""How long it may take to see the end of a process that was killed, in seconds."""


class SoloProcessError(RetinueError):
    """The process ended, or was killed because it hung; the text says which."""


class SoloProcess:
    """One such process; `start` comes before all else.

    Args:
        hang_s: How long it may give no sign of life before it is killed, in seconds.

    Attributes:
        is_fit: It may have another run: nothing of the last is left in it.
    """

    def __init__(self, *, hang_s: float) -> None:
        self.is_fit = True
        self._hang_s = hang_s
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._said: asyncio.Queue[object] = asyncio.Queue()
        self._heard = asyncio.Event()
        self._is_dismissed = False

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._hearing is not None and not self._hearing.done()

    async def start(self) -> None:
        """Returns when it is ready for a run; of one that could not be started its first run tells why."""
        # A session of its own: a Ctrl-C at the terminal is meant for the worker, which dismisses it.
        level = logging.getLogger("retinue").getEffectiveLevel()
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", MODULE, str(level),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as fault:
            self._said.put_nowait(SoloProcessError(f"its process cannot be started: {fault}"))
            return
        self._hearing = asyncio.create_task(self._hear(process))
        if self._is_dismissed:
            self.dismiss()
        await self._heard.wait()

    async def run(
        self, key: RunKey, *, on_wait: Callable[[], None], on_return: Callable[[], None]
    ) -> TaskReport:
        """Has it go on with a run; tells what became of it.

        Args:
            on_wait, on_return: Called when the run begins to wait for other runs, and when it goes on.

        Raises:
            SoloProcessError: The process is lost, and with it this attempt.
        """
        self.is_fit = False
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(json.dumps([key.tenant, key.run_id]).encode() + b"\n")
        while True:
            match await self._said.get():
                case ["wait"]:
                    on_wait()
                case ["return"]:
                    on_return()
                case ["done", str(kind), str(text), bool(is_fit)]:
                    self.is_fit = is_fit
                    return _report(kind, text)
                case ["over"]:
                    return Succeeded("handed back: its process stops")
                case SoloProcessError() as fault:
                    raise fault
                case _:
                    continue

    def dismiss(self) -> None:
        """Has it hand back what it holds, and end."""
        self._is_dismissed = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self, *, within_s: float, hurry_after_s: float) -> None:
        """Dismisses it and waits until it has ended; one that does not is killed.

        Args:
            within_s: When it is killed, in seconds from now.
            hurry_after_s: When it is told that calls in flight get no more time.
        """
        self.dismiss()
        process, hearing = self._process, self._hearing
        if process is None or hearing is None:
            return
        for wait_s, then in ((hurry_after_s, process.terminate), (within_s - hurry_after_s, process.kill)):
            await asyncio.wait([hearing], timeout=wait_s)
            if not hearing.done():
                with suppress(ProcessLookupError):
                    then()
        # Not longer: a process that it has left behind may keep its output open.
        await asyncio.wait([hearing], timeout=_KILLED_S)

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        """Takes all that it says, also between its runs: one that hangs then is not to get another."""
        assert process.stdout is not None
        within_s = max(STARTS_WITHIN_S, self._hang_s)
        try:
            while True:
                async with asyncio.timeout(within_s):
                    line = await process.stdout.readline()
                if not line.endswith(b"\n"):
                    fault = f"its process ended with {await process.wait()}"
                    break
                within_s = self._hang_s
                self._heard.set()
                if (said := json.loads(line)) != ["alive"]:
                    self._said.put_nowait(said)
        except TimeoutError:
            fault = f"its process gave no sign of life for {within_s:g} s"
        except ValueError:
            fault = "its process said what none of these says"
        with suppress(ProcessLookupError):
            process.kill()
        self._said.put_nowait(SoloProcessError(fault))
        self._heard.set()


def _report(kind: str, text: str) -> TaskReport:
    match kind:
        case "failed":
            return Failed(ErrorClassification(text))
        case "revoked":
            return Revoked(text)
        case _:
            return Succeeded(text)
