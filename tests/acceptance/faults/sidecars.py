"""The process that keeps a worker's lease; needs /proc."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from retinue.testing.workers import WorkerProcess


def sidecar_of(worker: WorkerProcess) -> int:
    """Its process id.

    Raises:
        LookupError: There is none just now.
    """
    for task in Path(f"/proc/{worker.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"sidecar.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise LookupError(f"{worker.name} has no sidecar")


def pause_host(worker: WorkerProcess) -> int:
    """Freezes a worker and its sidecar, as the pause of their machine does; gives the sidecar's id."""
    sidecar = sidecar_of(worker)
    os.kill(sidecar, signal.SIGSTOP)
    worker.pause()
    return sidecar


def resume_host(worker: WorkerProcess, sidecar: int) -> None:
    """Lets both go on."""
    os.kill(sidecar, signal.SIGCONT)
    worker.resume()
