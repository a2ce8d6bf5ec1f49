from __future__ import annotations

import os
import signal
import sys

from retinue.cli.exits import ExitCode
from retinue.cli.up.back_off import BackOff
from retinue.cli.up.supervisor import Supervisor, WorkerSlot

DIES = [sys.executable, "-c", "raise SystemExit(1)"]
LIVES = [sys.executable, "-c", "import time; time.sleep(600)"]


def slot(name: str, command: list[str], *, essential: bool = True) -> WorkerSlot:
    """A place whose process is started again at once, and given up after three deaths however late."""
    made = WorkerSlot(name, command, essential=essential)
    made.back_off = BackOff(first_s=0, settled_s=600)
    return made


def supervised(*slots: WorkerSlot, until: str) -> tuple[ExitCode, list[str]]:
    """How it ended, and what it said; told to end once it has said something."""
    said: list[str] = []

    def note(line: str) -> None:
        said.append(line)
        if until in line:
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor = Supervisor(
        slots,
        environment=lambda url: {**os.environ, "RETINUE_STORE_URL": url},
        store_url="redis://127.0.0.1:1/0",
        server=None,
        drain_s=1,
        on_store=lambda _url: None,
        note=note,
    )
    return supervisor.run(), said


def test_what_can_be_done_without_is_left_out_when_it_cannot_be_kept_alive() -> None:
    worker = slot("worker 1", LIVES)

    code, said = supervised(worker, slot("web", DIES, essential=False), until="going on without it")

    assert code is ExitCode.OK
    assert said.count("web ends as soon as it is started: see above; going on without it") == 1
    assert worker.process is not None


def test_what_is_essential_ends_all() -> None:
    code, said = supervised(slot("worker 1", DIES), until="nothing")

    assert code is ExitCode.PROBLEM
    assert said[-1] == "worker 1 ends as soon as it is started: see above; giving up"
