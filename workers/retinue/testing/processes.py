"""A child process for tests: its log, its signals, and a leash so that it never outlives the tests.

Separate from the servers and workers that are started with it, because both need the same care: a
test run that is killed outright runs no clean-up code, and a forgotten worker goes on taking work.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from retinue.contract.errors import RetinueError

# The leash waits on a pipe whose other end only the test process holds. The kernel closes that end
# however the test process dies, and the leash then kills the whole process group; a line written to
# it is the release. PR_SET_PDEATHSIG would fire when the *thread* that forked ends, so it will not do.
_LEASH = 'read -r _ || kill -s KILL -- "-$1"'
_POLL_S = 0.01
_TAIL_CHARS = 4_000


class ProcessFailedError(RetinueError):
    """A test's child process could not start, ended too early, or did not do in time what was waited for.

    Args:
        message: which process, and what happened.
        log_tail: the end of what it wrote.
    """

    def __init__(self, message: str, *, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}; the end of its log:\n{self.log_tail}" if self.log_tail else message


def _hear_interrupts() -> None:
    # A job that a shell started in the background ignores SIGINT, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class ChildProcess:
    """Runs one command in a process group of its own until it is closed or the test process dies.

    Args:
        command: Program and arguments; no shell is involved.
        log: File that standard output and standard error are appended to.
        env: The whole environment; None means that of the test process.
        cwd: Working directory; None means that of the test process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        self._command = list(command)
        self._paused = False
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_hear_interrupts,
            )
        self._leash = subprocess.Popen(
            ["/bin/sh", "-c", _LEASH, "leash", str(self.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a paused one is running."""
        return self._process.poll() is None

    def log_text(self) -> str:
        """Everything that the process, and what it started, has written so far."""
        return self.log.read_text(errors="replace")

    def wait_for_log(self, pattern: str, *, timeout_s: float = 20.0, count: int = 1) -> re.Match[str]:
        """Returns the match of the `count`-th line that `pattern` is found in, once it is there.

        Raises:
            ProcessFailedError: If the process ends, or `timeout_s` passes, before.
        """
        line = re.compile(pattern, re.MULTILINE)
        deadline = time.monotonic() + timeout_s
        while True:
            running = self.running  # asked before reading: what it wrote last is still seen
            for number, match in enumerate(line.finditer(self.log_text()), start=1):
                if number == count:
                    return match
            if not running:
                raise self.failure(f"ended with {self._process.returncode} before it wrote {pattern!r}")
            if time.monotonic() > deadline:
                raise self.failure(f"did not write {pattern!r} within {timeout_s} s")
            time.sleep(_POLL_S)

    def failure(self, what: str) -> ProcessFailedError:
        """The error to raise about this process, with its command and the end of its log."""
        name = f"{' '.join(self._command)} (pid {self.pid})"
        return ProcessFailedError(f"{name} {what}", log_tail=self.log_text()[-_TAIL_CHARS:])

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process alone, not to what it started."""
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Asks the process to end (SIGTERM); `wait` tells when it has."""
        self.signal(signal.SIGTERM)

    def kill(self) -> int:
        """Ends the process at once (SIGKILL), leaves what it started alone, and returns its exit code."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def pause(self) -> None:
        """Freezes the process (SIGSTOP); it runs no instruction once this returns."""
        if self._paused or not self.running:
            return
        self.signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            self._paused = True
        else:  # it ended just then, and waitpid has taken its exit code from Popen
            self._process.returncode = os.waitstatus_to_exitcode(status)

    def resume(self) -> None:
        """Lets a paused process go on (SIGCONT)."""
        self._paused = False
        self.signal(signal.SIGCONT)

    def wait(self, timeout_s: float = 20.0) -> int:
        """Waits for the end of the process and returns its exit code (negative: ended by that signal).

        Raises:
            ProcessFailedError: If it still runs after `timeout_s`.
        """
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"still runs after {timeout_s} s") from None

    def close(self) -> None:
        """Kills the process and everything in its group, and lets the leash go. May be called twice."""
        if self._leash.stdin is None or self._leash.stdin.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._leash.communicate(b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
