"""CPU time and memory of a process and all that it started, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += family(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its descendants, and those that have ended, in seconds."""
    total = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(fields[n]) for n in (11, 12, 13, 14))
    return total / _TICKS


def resident_kib(pid: int) -> int:
    """Resident memory of a process and its descendants, in KiB."""
    total = 0
    for member in family(pid):
        for line in Path(f"/proc/{member}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total
