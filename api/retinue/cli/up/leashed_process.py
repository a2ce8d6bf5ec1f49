"""A child process that does not outlive the one that started it, however that one ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

# The leash waits on a pipe whose other end only the parent holds. The kernel closes that end however the
# parent dies; then the child may drain for $2 seconds. A line is the release. PR_SET_PDEATHSIG will not do:
# it fires when the thread that forked ends, and only Linux has it.
_LEASH: Final = (
    'read -r _ && exit; kill -s TERM "$1"; left=$2; '
    'while [ "$left" -gt 0 ] && kill -s 0 "$1"; do sleep 1; left=$((left - 1)); done; kill -s KILL -- "-$1"'
)


class LeashedProcess:
    """One command in a process group of its own, so that a terminal's Ctrl-C is for the parent alone.

    Args:
        command: program and arguments; no shell is involved.
        env: the whole environment.
        output: file descriptor that standard output and standard error go to.
        drain_s: how long the child may go on after the parent's sudden death, in seconds.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], output: int, drain_s: float
    ) -> None:
        self.started_at = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            start_new_session=True,
        )
        self._leash = subprocess.Popen(
            ["/bin/sh", "-c", _LEASH, "leash", str(self.pid), str(int(drain_s) + 1)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: by that signal); None while it runs."""
        return self._process.poll()

    @property
    def lived_s(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self.started_at

    def terminate(self) -> None:
        """Asks it to drain and end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def close(self) -> None:
        """Kills what is left of its group, and lets the leash go. May be called twice."""
        pipe = self._leash.stdin
        if pipe is None or pipe.closed:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(OSError):
            pipe.write(b"\n")
            pipe.close()
        self._leash.wait()
