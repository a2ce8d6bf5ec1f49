"""Finds what still runs of a command: by a mark in its environment, or by its directory."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

_MARK = "LEFTOVER_MARK"
_LIMIT_S = 30.0


class Leftovers:
    """Processes of one command and of all that it started; needs /proc.

    Args:
        directory: of the command's own; a process that names it, or works in it, is one of them.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._mark = f"{_MARK}={directory}-{os.getpid()}"

    @property
    def environment(self) -> Mapping[str, str]:
        """To be given to the command."""
        name, _, value = self._mark.partition("=")
        return {name: value}

    def list(self) -> list[str]:
        """Process id and command line of each."""
        return [found for pid in os.listdir("/proc") if pid.isdigit() and (found := self._ours(pid))]

    def wait_until_none(self) -> None:
        """Waits for the end of all of them."""
        deadline = time.monotonic() + _LIMIT_S
        while found := self.list():
            assert time.monotonic() < deadline, f"left behind: {found}"
            time.sleep(0.05)

    def _ours(self, pid: str) -> str | None:
        place = Path("/proc") / pid
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            marked = self._mark.encode() in (place / "environ").read_bytes()
            here = self._directory in command or self._directory in os.readlink(place / "cwd")
        except OSError:
            return None
        return f"{pid} {command}" if (marked or here) and command and int(pid) != os.getpid() else None
