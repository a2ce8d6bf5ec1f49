"""Keeps an embedded server, workers and the HTTP API running until it is told to stop."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final

from retinue.cli.exits import ExitCode
from retinue.cli.up.back_off import BackOff
from retinue.cli.up.leashed_process import LeashedProcess
from retinue.contract import RetinueError

if TYPE_CHECKING:
    from retinue.broker.embedded.server import EmbeddedValkey

_POLL_S: Final = 0.2
_MISSED_PINGS: Final = 4  # a dead server refuses at once, so this is a second; a busy one gets five
_AFTER_DRAIN_S: Final = 10.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class WorkerSlot:
    """The place of one process, which is filled anew when the process has died.

    Args:
        name: for messages.
        command: what is started.
        essential: whether nothing goes on without it when it cannot be kept alive.
    """

    def __init__(self, name: str, command: Sequence[str], *, essential: bool = True) -> None:
        self.name = name
        self.command = command
        self.essential = essential
        self.process: LeashedProcess | None = None
        self.back_off = BackOff()
        self.due_at = 0.0  # monotonic seconds


class Supervisor:
    """Starts the processes, restarts what dies, and ends everything in good order.

    Args:
        slots: the workers, and the HTTP API.
        environment: makes their environment for a store's URL.
        store_url: the store's URL, when it is not the embedded server's.
        server: the embedded server, started; None = there is none of ours.
        drain_s: what they get after SIGTERM, in seconds.
        on_store: told the store's URL, at the start and whenever it changes.
        note: prints a line.
    """

    def __init__(
        self,
        slots: Sequence[WorkerSlot],
        *,
        environment: Callable[[str], Mapping[str, str]],
        store_url: str,
        server: EmbeddedValkey | None,
        drain_s: float,
        on_store: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._slots = list(slots)
        self._environment = environment
        self._store_url = store_url
        self._server = server
        self._server_back_off = BackOff()
        self._server_due_at = 0.0
        self._server_since = time.monotonic()
        self._missed_pings = 0
        self._drain_s = drain_s
        self._on_store = on_store
        self._say = note
        self._stop = threading.Event()
        self._signals = 0

    def run(self) -> ExitCode:
        """Works until SIGINT, SIGTERM or SIGHUP, or until an essential process cannot be kept alive.

        Returns:
            OK after a signal; PROBLEM if there was no hope left.
        """
        with self._listening():
            try:
                self._on_store(self._store_url)
                while not self._stop.is_set():
                    self._tend_server()
                    for slot in self._slots:
                        self._tend(slot)
                    if not self._goes_on():
                        return ExitCode.PROBLEM
                    self._stop.wait(_POLL_S)
                return ExitCode.OK
            finally:
                self._shut_down()

    def _goes_on(self) -> bool:
        """Whether what cannot be kept alive can be done without; that is then left out."""
        for slot in [slot for slot in self._slots if slot.back_off.is_hopeless]:
            verdict = "giving up" if slot.essential else "going on without it"
            self._note(f"{slot.name} ends as soon as it is started: see above; {verdict}")
            if slot.essential:
                return False
            self._slots.remove(slot)
        return True

    def _tend(self, slot: WorkerSlot) -> None:
        process, now = slot.process, time.monotonic()
        if process is None:
            if now >= slot.due_at and not self._missed_pings:
                slot.process = LeashedProcess(
                    slot.command,
                    env=self._environment(self._store_url),
                    # Standard output is for the exports.
                    output=sys.stderr.fileno(),
                    drain_s=self._drain_s,
                )
            return
        code = process.exit_code
        if code is None:
            return
        delay_s = slot.back_off.after_death(process.lived_s)
        process.close()
        slot.process, slot.due_at = None, now + delay_s
        if not slot.back_off.is_hopeless:
            self._note(f"{slot.name} (pid {process.pid}) {_ending(code)}; starting it again in {delay_s:g} s")

    def _tend_server(self) -> None:
        server, now = self._server, time.monotonic()
        if server is None or now < self._server_due_at:
            return
        if server.running:
            self._missed_pings = 0
            return
        self._missed_pings += 1
        if self._missed_pings < _MISSED_PINGS:
            return
        delay_s = self._server_back_off.after_death(now - self._server_since)
        self._note("the embedded Valkey does not answer; starting it again")
        try:
            server.stop(0)
            server.start()
        except RetinueError as error:
            self._server_due_at = now + delay_s
            self._note(f"{error}; trying again in {delay_s:g} s")
            return
        self._missed_pings, self._server_since = 0, time.monotonic()
        if server.url != self._store_url:
            self._move(server.url)

    def _move(self, url: str) -> None:
        """The server's old port was taken: all must be told of the new one."""
        self._store_url = url
        self._on_store(url)
        for slot in self._slots:
            if slot.process is not None:
                slot.process.close()
                slot.process = None
            slot.due_at = 0.0

    def _shut_down(self) -> None:
        running = [slot.process for slot in self._slots if slot.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + self._drain_s + _AFTER_DRAIN_S
        if running and any(process.exit_code is None for process in running):
            self._note(f"stopping {len(running)} process(es); once more to kill them")
        while time.monotonic() < deadline and self._signals < 2:
            if all(process.exit_code is not None for process in running):
                break
            time.sleep(_POLL_S / 4)
        for process in running:
            process.close()
        if self._server is not None:
            # Last, because the others write to it while they drain.
            self._server.stop()

    @contextlib.contextmanager
    def _listening(self) -> Generator[None]:
        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self._signals += 1
            self._stop.set()

        before = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, line: str) -> None:
        # The terminal may be gone; the workers must be stopped in good order all the same.
        with contextlib.suppress(OSError, ValueError):
            self._say(line)


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
