"""Two who act at the same moment, on connections of their own, a few hundred times over.

A script is atomic, so a race is a question of order alone; random delays bring both orders about, and
each test says which outcomes belong together.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, WHERE
from tests.integration.store.stage import Stage, SyncRunner

from retinue.contract import DecisionRefusal, Phase, SubagentState
from retinue.store.operations import asking, control, running
from retinue.store.operations.launching import Launched, ParentRefused
from retinue.store.replies import (
    Approved,
    Claimed,
    Ended,
    NotClaimed,
    Overtaken,
    Queued,
    Ready,
    Recorded,
    Stopped,
    Suspended,
)
from retinue.testing.servers import PrivateServer

ROUNDS = 200


@pytest.fixture(scope="module")
def runner(store_server: PrivateServer) -> Iterator[SyncRunner]:
    """One colour: what is raced is the server's order, and each OS thread gets a connection."""
    runner = SyncRunner(store_server.url)
    yield runner
    runner.close()


class Race:
    """Runs functions at the same moment, give or take a random 0.3 ms."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(3)
        self._random = random.Random(20)

    def __call__(self, *racers: Callable[[], Any]) -> list[Any]:
        start = time.monotonic() + 0.0003
        delays = [self._random.uniform(0, 0.0003) for _ in racers]
        started: dict[int, Future[Any]] = {}
        # In any order: where one thread keeps the interpreter to itself, the first to start wins for ever.
        for at in self._random.sample(range(len(racers)), len(racers)):
            started[at] = self._threads.submit(_at, start + delays[at], racers[at])
        return [started[at].result(30) for at in range(len(racers))]

    def close(self) -> None:
        self._threads.shutdown()


def _at(moment: float, racer: Callable[[], Any]) -> Any:
    while time.monotonic() < moment:
        time.sleep(0)  # lets the others in; a sleep this short is not to be had
    return racer()


@pytest.fixture
def race() -> Iterator[Race]:
    race = Race()
    yield race
    race.close()


def _twice(stage: Stage, call: Any, dice: random.Random) -> Any:
    """Every tenth reply is lost, and its call sent again."""
    first = stage.run(call)
    return stage.run(call) if dice.random() < 0.1 else first


def test_a_parent_suspends_while_its_children_end(stage: Stage, race: Race) -> None:
    """Woken exactly once, or told to go on; never left waiting for answers that are there."""
    outcomes: Counter[str] = Counter()
    dice = random.Random(1)
    for _ in range(ROUNDS):
        parent = stage.calling(stage.root(), "run_agent", "run_agent")
        children = [stage.child(parent, index) for index in (0, 1)]
        finishes = [stage.asking(child, process="p2").finish() for child in children]
        suspend = parent.suspend(children)
        replies = race(
            lambda call=suspend: _twice(stage, call, dice),
            *(lambda call=call: _twice(stage, call, dice) for call in finishes),
        )
        record, wakeups = stage.record(parent.run), [reply.wakeup for reply in replies[1:] if reply.wakeup]
        assert set(stage.server.hkeys(stage.part(parent.run, "run:{}:j"))) == {"1:0", "1:1"}
        if isinstance(replies[0], Suspended):
            assert (record.phase, record.wakeup) == ("queued", 2)
            assert [wakeup.number for wakeup in wakeups] == [2]
        else:
            assert replies[0] == Ready()
            assert (record.phase, record.wakeup, wakeups) == ("tool_call", 1, [])
        outcomes[type(replies[0]).__name__] += 1
    assert set(outcomes) == {"Suspended", "Ready"}, outcomes


def test_a_parent_launches_while_it_is_cancelled(stage: Stage, race: Race) -> None:
    """A child either stands before the mark, and is swept, or is refused."""
    outcomes: Counter[str] = Counter()
    for _ in range(ROUNDS):
        root = stage.root()
        parent = stage.calling(root, "run_agent", "run_agent")
        launches = [
            stage.launch_call(stage.new_child(parent, index), parent=parent.as_parent(1)) for index in (0, 1)
        ]
        children = [stage.key(call.argv[11]) for call in launches]
        suspend = parent.suspend(children)

        def launch(launches: Any = launches, suspend: Any = suspend) -> list[Any]:
            replies: list[Any] = []
            for call in (*launches, suspend):
                replies.append(stage.run(call))
                if isinstance(replies[-1], ParentRefused):
                    break
            return replies

        def cancel(root: Any = root) -> None:
            assert stage.cancel(root).outcome == "ACCEPTED"
            stage.sweep(root)

        replies, _ = race(launch, cancel)
        outcomes[f"{len(replies)} {type(replies[-1]).__name__}"] += 1
        assert all(reply in (ParentRefused("CANCELLED"), Stopped("CANCEL"), Suspended(2)) or
                   isinstance(reply, Launched) for reply in replies)  # fmt: skip
        held = not isinstance(replies[-1], Suspended)
        assert stage.live(root) == ([root.run_id] if held else [])
        kinds = [event.type.value for event in stage.events(root)]
        after = set(kinds[kinds.index("cancel.requested") :])
        assert after <= {"cancel.requested", "run.finished", "tool.finished"}
    assert len(outcomes) > 1, outcomes


def test_two_workers_claim_the_same_run(stage: Stage, race: Race) -> None:
    winners: Counter[str] = Counter()
    for _ in range(ROUNDS):
        root = stage.root()
        calls = [stage.claim_call(root, process=process) for process in ("p1", "p2")]
        replies = race(*(lambda call=call: stage.run(call) for call in calls))
        won = [isinstance(reply, Claimed) for reply in replies]
        assert sorted(won) == [False, True]
        assert isinstance(replies[won.index(False)], NotClaimed)
        assert stage.record(root).epoch == 1
        winner = ("p1", "p2")[won.index(True)]
        assert stage.record(root).owner == stage.process(winner)
        winners[winner] += 1
    assert len(winners) == 2, winners
    assert not set(stage.owned("p1")) & set(stage.owned("p2"))


def test_steers_come_while_a_run_finishes(stage: Stage, race: Race) -> None:
    """Every accepted one gets its receipt, no refused one is stored."""
    dispositions: Counter[str] = Counter()
    for _ in range(ROUNDS):
        root = stage.root()
        attempt = stage.asking(root)
        stage.run(attempt.model())

        def finish(attempt: Any = attempt) -> None:
            while isinstance(reply := stage.run(attempt.finish()), Overtaken):
                steers = attempt.go(pin=None).steers
                stage.run(attempt.model(steers=steers))
            assert reply == Ended(SubagentState.SUCCEEDED, None)

        def steer(root: Any = root) -> list[str]:
            return [
                stage.run(control.steer(root, steer_id=f"s{n}", message=f"m{n}", max_steers=9)).outcome
                for n in range(3)
            ]

        _, answers = race(finish, steer)
        assert set(answers) <= {"QUEUED", "TERMINAL"}
        accepted = [f"s{n}" for n, answer in enumerate(answers) if answer == "QUEUED"]
        stored = stage.result(root).steers
        assert [one.steer_id for one in stored] == accepted
        assert all(one.disposition[0] in "dm" for one in stored)
        dispositions.update(one.disposition[0] for one in stored)
        dispositions["refused"] += answers.count("TERMINAL")
    assert dispositions["d"], dispositions
    assert dispositions["refused"], dispositions


def test_a_human_decides_while_the_run_is_cancelled(stage: Stage, race: Race) -> None:
    """The run goes on by the decision and is ended for the cancel, or the decision is refused."""
    outcomes: Counter[str] = Counter()
    for _ in range(ROUNDS):
        attempt = stage.calling(stage.root(), "refund")
        stage.run(attempt.ask(REFUND))
        run = attempt.run
        approve = asking.approve(run, above=run.run_id, slot="1:0", decision_id="d1")

        def cancel(run: Any = run) -> None:
            assert stage.cancel(run).outcome == "ACCEPTED"
            stage.sweep(run)

        decided, _ = race(lambda call=approve: stage.run(call), cancel)
        assert stage.state(run) is SubagentState.CANCELLED
        decisions = [
            event.data["decision"] for event in stage.events(run) if event.type == "approval.decided"
        ]
        if decided.refused is None:
            assert decisions == ["approved"]
        else:
            assert decided.refused in (DecisionRefusal.CANCELLED, DecisionRefusal.ENDED)
            assert decisions == ["withdrawn"]
        outcomes[str(decided.refused)] += 1
    assert "None" in outcomes, outcomes
    assert len(outcomes) > 1, outcomes


def test_two_humans_decide_at_the_same_moment(stage: Stage, race: Race) -> None:
    """One of them is accepted, whose decision stands."""
    winners: Counter[int] = Counter()
    dice = random.Random(2)
    for _ in range(ROUNDS):
        attempt = stage.calling(stage.root(), "refund")
        stage.run(attempt.ask(REFUND))
        run = attempt.run
        calls = [
            asking.approve(run, above=run.run_id, slot="1:0", decision_id="d1"),
            asking.deny(run, above=run.run_id, slot="1:0", decision_id="d2", reason="no"),
        ]
        replies = race(*(lambda call=call: _twice(stage, call, dice) for call in calls))
        accepted = [reply.refused is None for reply in replies]
        assert sorted(accepted) == [False, True]
        winner = accepted.index(True)
        assert replies[1 - winner].refused is DecisionRefusal.DECIDED
        assert replies[winner].wakeup.number == stage.record(run).wakeup == 2
        assert set(stage.claim(run).claimed.journal) == (set(), {"1:0"})[winner]
        winners[winner] += 1
    assert len(winners) == 2, winners


def test_a_call_is_answered_while_its_run_comes_to_its_deadline(stage: Stage, race: Race) -> None:
    """It stands still until then: whoever comes first, the answer is taken, and then time goes on."""
    outcomes: Counter[bool] = Counter()
    for _ in range(ROUNDS):
        attempt = stage.calling(stage.root(timeout_ms=600_000), "where")
        stage.run(attempt.ask(WHERE, phase=Phase.WAITING_INPUT))
        run = attempt.run
        stage.expire_deadline(run)
        answer = asking.answer(run, above=run.run_id, slot="1:0", decision_id="d1", value="here")
        timer = control.timer(run, again_ms=1000)
        answered, ended = race(lambda call=answer: stage.run(call), lambda call=timer: stage.run(call))
        assert answered.refused is None
        outcomes[ended is None] += 1
        assert (ended or stage.run(timer)).state is SubagentState.INTERRUPTED
        assert stage.queued() == []
    assert outcomes.keys() == {True, False}, outcomes


def test_a_run_suspends_anew_while_its_other_call_is_approved(stage: Stage, race: Race) -> None:
    """It is woken for the approval, or told of it: never left waiting for what is there."""
    outcomes: Counter[str] = Counter()
    dice = random.Random(3)
    for _ in range(ROUNDS):
        attempt = stage.calling(stage.root(), "refund", "refund")
        stage.run(attempt.ask(REFUND, REFUND))
        run = attempt.run
        stage.run(asking.deny(run, above=run.run_id, slot="1:0", decision_id="d1", reason=""))
        stage.run(asking.approve(run, above=run.run_id, slot="1:1", decision_id="d2"))
        again = stage.claim(run)
        stage.run(again.begin(1))
        stage.run(again.tool(1, tool="refund"))
        stage.run(again.go(results=[0, 1], pin=None) and again.model(tools=["refund", "refund"]))
        stage.run(again.ask(REFUND, REFUND))
        stage.run(asking.approve(run, above=run.run_id, slot="2:0", decision_id="d3"))
        third = stage.claim(run)
        stage.run(third.begin(0))
        stage.run(third.tool(0, tool="refund"))
        suspend = third.ask(REFUND, REFUND)
        approve = asking.approve(run, above=run.run_id, slot="2:1", decision_id="d4")
        suspended, approved = race(
            lambda call=suspend: _twice(stage, call, dice), lambda call=approve: _twice(stage, call, dice)
        )
        assert approved.refused is None
        if isinstance(suspended, Suspended):
            assert approved.wakeup is not None
            assert stage.record(run).phase == "queued"
        else:
            assert suspended == Approved(("2:1",))
            assert approved.wakeup is None
        outcomes[type(suspended).__name__] += 1
    assert set(outcomes) == {"Suspended", "Approved"}, outcomes


def test_a_dead_process_comes_back_while_its_run_is_taken_over(stage: Stage, race: Race) -> None:
    """Its last write stands or is refused; the run goes on from exactly what stands."""
    outcomes: Counter[str] = Counter()
    for _ in range(ROUNDS):
        attempt = stage.calling(stage.root(), "search")
        write = attempt.tool(0, "found")
        take = running.take_over(attempt.run, process=stage.process("p1"), dead=True, losses_before_end=3)
        written, queued = race(lambda call=write: stage.run(call), lambda call=take: stage.run(call))
        assert isinstance(queued, Queued)
        journal = stage.claim(attempt.run, process="p3").claimed.journal
        assert journal == ({"1:0": '"found"'} if isinstance(written, Recorded) else {})
        outcomes[type(written).__name__] += 1
    assert set(outcomes) == {"Recorded", "Stale"}, outcomes
