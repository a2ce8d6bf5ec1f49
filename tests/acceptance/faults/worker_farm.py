"""A program that keeps workers running, each of which is to die at another point, until one is left for good.

    python worker_farm.py 2 after-claim before-model ...

They are forked from one process that has imported what they need, so that a new one takes no seconds. It
says of each worker that has ended `died <point>`, or `ended <point> <status>` if it was not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque

import openai  # noqa: F401
import pyagentspec.swarm  # noqa: F401
from celery.__main__ import main as celery

import retinue.worker.runtime  # noqa: F401
from retinue.store import running
from retinue.worker.crash_points import VARIABLE

IMMORTAL = "never"


def keep_workers(at_once: int, points: deque[str]) -> None:
    """Starts workers and replaces those that die, without end."""
    running: dict[int, str] = {}
    number = 0
    while True:
        while len(running) < at_once and (points or IMMORTAL not in running.values()):
            number += 1
            point = points.popleft() if points else IMMORTAL
            pid = os.fork()
            if pid == 0:
                _work(number, point)
            running[pid] = point
        pid, status = os.wait()
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        point = running.pop(pid)
        print(f"died {point}" if killed else f"ended {point} {status}", flush=True)


def _work(number: int, point: str) -> None:
    os.environ[VARIABLE] = point
    # Every run loses workers here, and suspects would spend most of the time on the start of their own.
    claim = running.claim
    running.claim = lambda *args, **options: claim(*args, **{**options, "alone": True})
    sys.argv = ["celery", "-A", "retinue.worker", "worker", "-c", "4", "-n", f"farm{number}@%h", "-l", "INFO"]
    celery()
    os._exit(0)


if __name__ == "__main__":
    keep_workers(int(sys.argv[1]), deque(sys.argv[2:]))
