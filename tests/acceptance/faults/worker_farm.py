"""A program that keeps workers running, each of which is to die at another point, until one is left for good.

    python worker_farm.py ends.txt 2 after-claim drain/before-hand_back cut/after-take_over before-model ...

A worker whose point begins with `drain/` gets a SIGTERM when its first run is about to pass a boundary, and
the time that it needs; one with `cut/` has none. Both die only once they stop; should one end before it gets
to its point, another one tries.

They are forked from one process that has imported what they need, so that a new one takes no seconds. Of
each worker that has ended the file gets a line: `died <point>`, or `ended <point> <status>` if it was not
killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import entry_points
from pathlib import Path
from threading import Event
from typing import Any

import openai  # noqa: F401
import pyagentspec.swarm  # noqa: F401
from celery.__main__ import main as celery

from retinue.broker.reaper.stranded import Stranded
from retinue.store.operations import running
from retinue.worker.crash_points import VARIABLE, CrashPoint
from retinue.worker.models import admission
from retinue.worker.runtime import WorkerRuntime

IMMORTAL = "never"
RENEW_EVERY_S = 0.002
"""Between renewals of a model request's place: no request here lasts for the twenty seconds of others."""

UNSERVED_S = 0.5
"""How long a queue is left alone that nobody serves: no worker here lives for the ten seconds of others."""


def keep_workers(ends: Path, at_once: int, points: deque[str]) -> None:
    """Starts workers and replaces those that die, without end."""
    alive: dict[int, str] = {}
    number = 0
    while True:
        # The immortal one comes last: elected, it would keep the others from a reaper's points for good.
        while len(alive) < at_once and (points or not alive):
            number += 1
            point = points.popleft() if points else IMMORTAL
            pid = os.fork()
            if pid == 0:
                _work(number, point)
            alive[pid] = point
        pid, status = os.wait()
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        point = alive.pop(pid)
        if status == 0 and "/" in point:
            points.append(point)
            continue
        with ends.open("a") as file:
            file.write(f"died {point}\n" if killed else f"ended {point} {status}\n")


def _work(number: int, text: str) -> None:
    stop, _, point = text.rpartition("/")
    os.environ[VARIABLE] = point
    if stop:
        os.environ["RETINUE_DRAIN_SECONDS"] = "0" if stop == "cut" else "30"
        _stop_at_the_first_boundary()
        _die_only_once_it_stops()
    _look_after_the_stranded_soon()
    admission.RENEW_EVERY_S = RENEW_EVERY_S
    # Every run loses workers here, and suspects would spend most of the time on the start of their own.
    claim = running.claim
    running.claim = lambda *args, **options: claim(*args, **{**options, "alone": True})
    sys.argv = ["celery", "-A", "retinue.worker", "worker", "-c", "4", "-n", f"farm{number}@%h", "-l", "INFO"]
    celery()
    os._exit(0)


def _stop_at_the_first_boundary() -> None:
    boundary = running.boundary

    def stopping(*args: Any, **options: Any) -> Any:
        running.boundary = boundary
        os.kill(os.getpid(), signal.SIGTERM)
        return boundary(*args, **options)

    running.boundary = stopping


def _die_only_once_it_stops() -> None:
    """An elected reaper may come to the same point before, with the runs of another worker."""
    passing, stop, stops = CrashPoint.passing, WorkerRuntime.stop, Event()

    async def stopping(self: WorkerRuntime, timeout_s: float) -> None:
        stops.set()
        await stop(self, timeout_s)

    def passing_then(self: CrashPoint, what: str) -> AbstractContextManager[None]:
        return passing(self, what) if stops.is_set() else nullcontext()

    WorkerRuntime.stop = stopping
    CrashPoint.passing = passing_then


def _look_after_the_stranded_soon() -> None:
    make = Stranded.__init__

    def hasty(*args: Any, **options: Any) -> None:
        make(*args, **{**options, "every_s": 0.0, "unserved_s": UNSERVED_S})

    Stranded.__init__ = hasty


if __name__ == "__main__":
    for command in entry_points(group="celery.commands"):
        command.load()  # else each worker's command line would
    keep_workers(Path(sys.argv[1]), int(sys.argv[2]), deque(sys.argv[3:]))
