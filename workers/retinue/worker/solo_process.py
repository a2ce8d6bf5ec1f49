"""A process that has one run to itself, as the worker sees it that started it.

It is told a run by a line of JSON on its standard input, and answers by such lines on its standard output:
`["ready"]`, `["alive"]` twice a second, `["wait"]` and `["return"]` around a wait for other runs, and in the
end `["done", kind, text, whether it is fit for another run]`. The end of its input means that it is to stop.
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
from retinue.worker.reports import Failed, Revoked, Succeeded, TaskReport

MODULE: Final = "retinue.worker.solo"
STARTS_WITHIN_S: Final = 60.0
"""How long it may take to get ready, in seconds: it imports what its worker has."""


class SoloProcessError(RetinueError):
    """The process ended, or was killed because it hung; the text says which."""


class SoloProcess:
    """One such process; started by its first run.

    Args:
        hang_s: How long it may give no sign of life before it is killed, in seconds.

    Attributes:
        is_fit: Nothing of its last run is left in it: it may have another.
    """

    def __init__(self, *, hang_s: float) -> None:
        self._hang_s = hang_s
        self._process: asyncio.subprocess.Process | None = None
        self._is_dismissed = False
        self.is_fit = True

    async def run(
        self, key: RunKey, *, on_wait: Callable[[], None], on_return: Callable[[], None]
    ) -> TaskReport:
        """Has it go on with a run; tells what became of it.

        Args:
            on_wait, on_return: Called when the run begins to wait for other runs, and when it goes on.

        Raises:
            SoloProcessError: The process is lost, and with it this attempt.
        """
        process = self._process or await self._start()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(json.dumps([key.tenant, key.run_id]).encode() + b"\n")
        while True:
            match await self._hear(process, self._hang_s):
                case ["wait"]:
                    on_wait()
                case ["return"]:
                    on_return()
                case ["done", str(kind), str(text), bool(self.is_fit)]:
                    return _report(kind, text)
                case _:
                    continue

    def dismiss(self) -> None:
        """Has it hand back what it holds, and end."""
        self._is_dismissed = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _start(self) -> asyncio.subprocess.Process:
        # A session of its own: a Ctrl-C at the terminal is meant for the worker, which dismisses it.
        level = logging.getLogger("retinue").getEffectiveLevel()
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", MODULE, str(level),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        if self._is_dismissed:
            self.dismiss()
        await self._hear(process, max(STARTS_WITHIN_S, self._hang_s))
        return process

    async def _hear(self, process: asyncio.subprocess.Process, within_s: float) -> object:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                line = await process.stdout.readline()
        except TimeoutError:
            process.kill()
            raise SoloProcessError(f"its process gave no sign of life for {within_s:g} s") from None
        if not line.endswith(b"\n"):
            raise SoloProcessError(f"its process ended with {await process.wait()}")
        return json.loads(line)


def _report(kind: str, text: str) -> TaskReport:
    match kind:
        case "failed":
            return Failed(ErrorClassification(text))
        case "revoked":
            return Revoked(text)
        case _:
            return Succeeded(text)
