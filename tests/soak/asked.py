"""What the models of a soak were asked, kept small: a soak asks them tens of thousands of times."""

from __future__ import annotations

import threading
from typing import NamedTuple

from retinue.testing.scripted_server import ScriptedServer

_EVERY_S = 2.0


class Asked(NamedTuple):
    """One request.

    Args:
        goal: The first user message of its history: what its run was asked to do.
        iteration: Which one of the run it is, by its history; from 1 on.
        at: Epoch seconds of its arrival.
        problem: Why it had no answer; None = it had.
    """

    goal: str
    iteration: int
    at: float
    problem: str | None


class AskedRecord:
    """Collects from a scripted server while it runs, from `start` until `finish`."""

    def __init__(self, model: ScriptedServer) -> None:
        self.asked: list[Asked] = []
        self._model = model
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._collect, name="asked", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def finish(self) -> None:
        """Ends, with all that has been answered."""
        self._stopping.set()
        self._thread.join()
        self._take()

    def _collect(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            self._take()

    def _take(self) -> None:
        for record in self._model.requests():
            if record.finished_at is None:
                continue
            request = record.request
            goal = request.messages[0].text if request and request.messages else ""
            turn = request.turn if request else 0
            self.asked.append(Asked(goal, turn + 1, record.started_at, record.problem))
        self._model.forget()
