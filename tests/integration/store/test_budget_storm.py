"""Random work, losses, repeats and raises under nested budgets: nothing is held that nobody has reserved."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import Budget, Phase, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import budgets, running
from retinue.store.operations.budgets import Reservation
from retinue.store.replies import Passed

STEPS = 120
AMOUNTS = (100_000, 250_000, 400_000)


class Storm:
    """A tree with a budget of 1 USD, half of it for one child's own tree."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chosen = random.Random(seed)
        self.root = stage.root(budget=Budget(usd=1.0))
        parent = stage.calling(self.root, *["run_agent"] * 6)
        tight = stage.child(parent, 0, budget=Budget(usd=0.5))
        self.runs = [stage.child(parent, index) for index in range(1, 6)]
        middle = stage.calling(tight, *["run_agent"] * 3, process="p2")
        self.runs += [stage.child(middle, index) for index in range(3)]
        self.tops = [parent, middle]
        self.held: dict[str, Attempt] = {}
        self.cap = 1_000_000

    def live(self) -> list[RunKey]:
        return [run for run in self.runs if not self.stage.record(run).is_terminal]

    def send(self, call: Any) -> Any:
        """Sends a call, at times again, as if its reply had been lost."""
        reply = self.stage.run(call)
        if self.chosen.random() < 0.3:
            before = self.stage.dump()
            self.stage.run(call)
            assert self.stage.dump() == before, "a repeat changed something"
        return reply

    def step(self) -> None:
        run = self.chosen.choice(self.live())
        attempt = self.held.get(run.run_id)
        if attempt is None:
            self.begin(run)
        else:
            self.go_on(run, attempt)
        if self.chosen.random() < 0.05:
            self.cap += 100_000
            self.send(budgets.raise_budget(self.root, {"usd": self.cap}))

    def begin(self, run: RunKey) -> None:
        if self.stage.record(run).phase is not Phase.QUEUED:
            return
        attempt = self.stage.claim(run)
        amount = self.chosen.choice(AMOUNTS)
        reply = self.send(attempt.boundary(reservation=Reservation(100, 10, amount, 0)))
        if isinstance(reply, Passed):
            self.held[run.run_id] = attempt

    def go_on(self, run: RunKey, attempt: Attempt) -> None:
        del self.held[run.run_id]
        match self.chosen.randrange(6):
            case 0:
                process = self.stage.process("p1")
                self.send(running.take_over(run, process=process, dead=False, losses_before_end=100))
            case 1:
                self.send(attempt.hand_back())
            case 2:
                self.send(attempt.finish(SubagentState.FAILED))
            case 3:
                self.stage.cancel(run)
                self.send(attempt.finish(SubagentState.CANCELLED))
            case _:
                cost = self.chosen.choice((0, 50_000, None))
                self.send(attempt.model(micro_usd=cost))
                self.send(attempt.hand_back())

    def finish(self) -> None:
        """A budget for everything: whoever waits is woken, if not at once then by the ends of others."""
        self.send(budgets.raise_budget(self.root, {"usd": 1_000_000_000_000}))
        tight = self.stage.key(self.tops[1].run.run_id)
        self.send(budgets.raise_budget(tight, {"usd": 1_000_000_000_000}))
        for attempt in self.held.values():
            self.send(attempt.finish(SubagentState.FAILED))
        self.held.clear()
        for run in self.live():
            self.stage.end(run)
        for parent in reversed(self.tops):
            self.send(parent.finish(SubagentState.FAILED))


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_what_is_held_is_what_is_reserved_and_nobody_waits_for_ever(
    stage: Stage, seed: int
) -> None:
    storm = Storm(stage, seed)
    for _ in range(STEPS):
        if not storm.live():
            break
        storm.step()
        stage.audit()
    storm.finish()
    assert all(stage.record(run).is_terminal for run in storm.runs)
