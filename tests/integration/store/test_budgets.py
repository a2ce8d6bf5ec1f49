"""Budgets: reserved before a request on every run above that has one, cleared after it, and by every loss."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import Budget, Phase, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import budgets, control, reading, running
from retinue.store.operations.budgets import NotRaised, Raised, Reservation, budget_status
from retinue.store.replies import (
    Ended,
    Passed,
    Paused,
    Queued,
    RecordedResponse,
    Spent,
    Stale,
    Stopped,
    Unpriced,
)

ASK = Reservation(1_000, 500, 400_000, 0)
"""What each request of these tests reserves: 0.40 USD."""


def budget(**caps: Any) -> Budget:
    return Budget(**caps)


def children(stage: Stage, count: int, **root: Any) -> tuple[RunKey, list[RunKey]]:
    """A root that waits, under a budget of 1 USD unless told otherwise, and its queued children."""
    root_run = stage.root(**({"budget": budget(usd=1.0)} | root))
    parent = stage.claim(root_run)
    stage.run(parent.boundary(reservation=Reservation(0, 0, 0, 0)))
    stage.run(parent.model(tools=["run_agent"] * count, micro_usd=0, tokens=(1, 0)))
    launched = [stage.child(parent, index) for index in range(count)]
    stage.run(parent.suspend(launched))
    return root_run, launched


def held(stage: Stage, run: RunKey) -> int:
    """Micro-USD that a run's budget holds."""
    status = budget_status(stage.record(run).account, 0)
    assert status is not None
    return round(status.caps["usd"].held * 1_000_000)


def ask(stage: Stage, run: RunKey, reservation: Reservation = ASK, **how: Any) -> tuple[Attempt, Any]:
    attempt = stage.claim(run, **how)
    return attempt, stage.run(attempt.boundary(reservation=reservation))


def phase(stage: Stage, run: RunKey) -> Phase:
    return stage.record(run).phase


def woken(reply: Any) -> list[str]:
    return [wake.run_id for wake in reply.woken]


def told(stage: Stage, root: RunKey, kind: str) -> list[dict[str, Any]]:
    return [data for event, data in stage.story(root) if event == kind]


# Reserving and clearing.


def test_a_request_is_reserved_on_every_budget_above_and_its_real_cost_is_used(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0))
    parent = stage.calling(root)
    child = stage.child(parent, budget=budget(tokens=5_000, usd=0.9))
    attempt, passed = ask(stage, child, process="p2")
    assert isinstance(passed, Passed)
    assert (held(stage, root), held(stage, child)) == (400_000, 400_000)
    stage.run(attempt.model(micro_usd=250_000, tokens=(900, 100)))
    assert (held(stage, root), held(stage, child)) == (0, 0)
    status = budget_status(stage.record(child).account, 0)
    assert status is not None
    assert status.to_dict() == {
        "tokens": {"limit": 5_000, "used": 1_000, "held": 0, "left": 4_000},
        "usd": {"limit": 0.9, "used": 0.25, "held": 0.0, "left": 0.65},
        "on_spent": "pause",
    }


def test_a_repeated_boundary_reserves_once(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0))
    attempt = stage.claim(root)
    call = attempt.boundary(reservation=ASK)
    first, after = stage.run(call), stage.dump()
    assert stage.run(call) == first
    assert stage.dump() == after
    assert held(stage, root) == 400_000


def test_a_repeated_pause_is_answered_alike_before_and_after_the_run_goes_on(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.1))
    call = stage.claim(root).boundary(reservation=ASK)
    assert isinstance(first := stage.run(call), Paused)
    after = stage.dump()
    assert stage.run(call) == first
    assert stage.dump() == after
    stage.run(budgets.raise_budget(root, {"usd": 1_000_000}))
    stage.claim(root)
    assert isinstance(stage.run(call), Stale)


def test_a_dropped_request_is_reserved_anew_and_not_twice(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.5))
    attempt, _ = ask(stage, root)
    again = stage.run(attempt.boundary(pin=None, reservation=Reservation(10, 10, 450_000, 0)))
    assert isinstance(again, Passed), "its own reservation stands in its own way"
    assert held(stage, root) == 450_000


def test_what_joins_the_thread_at_the_boundary_is_reserved_too(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0, tokens=10_000))
    attempt, _ = ask(stage, root)
    stage.run(attempt.model(tools=["search"], micro_usd=0, tokens=(0, 1)))
    stage.run(attempt.tool(0, "x" * 2_950))
    stage.steer(root, "y" * 298)
    priced = Reservation(10, 0, 10, 100_000)  # a micro-USD a token
    assert isinstance(stage.run(attempt.boundary(results=[0], reservation=priced)), Passed)
    record = stage.record(root).fields
    assert 1_000 + 10 < int(record["rin"]) < 1_200
    assert record["rus"] == record["rin"]


@pytest.mark.parametrize(
    "clear",
    [
        lambda attempt: attempt.model(micro_usd=1),
        lambda attempt: attempt.finish(SubagentState.FAILED),
        lambda attempt: attempt.hand_back(),
    ],
)
def test_a_reservation_ends_with_its_request(stage: Stage, clear: Any) -> None:
    root = stage.root(budget=budget(usd=1.0))
    attempt, _ = ask(stage, root)
    assert held(stage, root) == 400_000
    stage.run(clear(attempt))
    assert held(stage, root) == 0


@pytest.mark.parametrize("dead", [True, False])
def test_a_reservation_survives_no_loss_of_its_process(stage: Stage, dead: bool) -> None:
    root = stage.root(budget=budget(usd=1.0))
    ask(stage, root)
    take = running.take_over(root, process=stage.process("p1"), dead=dead, losses_before_end=3)
    assert isinstance(stage.run(take), Queued)
    assert held(stage, root) == 0
    attempt, passed = ask(stage, root, process="p2")
    assert isinstance(passed, Passed)
    stage.run(attempt.model(micro_usd=1))


def test_a_reservation_survives_no_end_by_its_timer(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0), timeout_ms=60_000)
    ask(stage, root)
    stage.expire_deadline(root)
    assert isinstance(stage.run(control.timer(root, again_ms=1_000, grace_ms=0)), Ended)
    assert held(stage, root) == 0


def test_what_no_server_said_is_charged_as_it_was_estimated(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0))
    attempt, _ = ask(stage, root)
    stage.run(attempt.model(micro_usd=None, tokens=(0, 0)))
    account = stage.record(root).account
    assert (account["ui"], account["uo"], account["uu"]) == ("1000", "500", "400000")


# Short by others' reservations.


def test_concurrent_children_never_pass_a_cap_and_wait_for_each_other(stage: Stage) -> None:
    root, runs = children(stage, 5)
    asked = [ask(stage, run) for run in runs]
    passed = [attempt for attempt, reply in asked if isinstance(reply, Passed)]
    assert len(passed) == 2, "0.80 of 1.00 USD is reserved"
    waiting = [reply for _, reply in asked if isinstance(reply, Paused)]
    assert waiting == [Paused(False, ())] * 3
    assert held(stage, root) == 800_000
    assert told(stage, root, "budget.paused") == [], "nothing that a human could mend"

    first = stage.run(passed[0].model(micro_usd=10_000))
    assert woken(first) == [runs[2].run_id], "who came first, and as many as fit"
    assert phase(stage, runs[2]) is Phase.QUEUED
    assert [phase(stage, run) for run in runs[3:]] == [Phase.PAUSED_BUDGET] * 2

    second = stage.run(passed[1].finish(SubagentState.FAILED))
    assert isinstance(second, Ended)
    # The third is queued and has reserved nothing yet: the other two fit by what is known now.
    assert woken(second) == [runs[3].run_id, runs[4].run_id]


def test_who_is_woken_is_owed_a_wake_up_by_each_way_that_clears(stage: Stage) -> None:
    for clear in ("hand_back", "dead"):
        _, (one, other) = children(stage, 2, budget=budget(usd=0.5))
        attempt, _ = ask(stage, one)
        ask(stage, other, process="p2")
        process = stage.process("p1")
        call = (
            attempt.hand_back()
            if clear == "hand_back"
            else running.take_over(one, process=process, dead=True, losses_before_end=3)
        )
        reply = stage.run(call)
        assert woken(reply) == [other.run_id]
        assert reply.owed == (reply.wakeup, *reply.woken)


def test_a_waiting_run_that_is_cancelled_leaves_the_line_and_lets_the_next_pass(stage: Stage) -> None:
    root, (one, two, three) = children(stage, 3, budget=budget(usd=0.5))
    attempt, _ = ask(stage, one)
    ask(stage, two)
    ask(stage, three)
    stage.run(attempt.model(micro_usd=1))  # two is woken, and has reserved nothing yet
    assert phase(stage, two) is Phase.QUEUED
    stage.cancel(two)
    (swept,) = stage.sweep(two)
    assert [wake.run_id for wake in swept.wakeups] == [three.run_id]
    stage.cancel(root)
    stage.sweep(root)
    assert stage.state(three) is SubagentState.CANCELLED


def test_who_waits_behind_a_woken_run_that_nobody_takes_looks_again_by_itself(stage: Stage) -> None:
    _, (one, two, three) = children(stage, 3, budget=budget(usd=0.5))
    attempt, _ = ask(stage, one)
    ask(stage, two)
    ask(stage, three)
    assert woken(stage.run(attempt.finish(SubagentState.FAILED))) == [two.run_id]
    assert three.run_id in stage.due()
    assert phase(stage, three) is Phase.PAUSED_BUDGET

    looked = stage.run(control.timer(three, again_ms=1_000))
    assert isinstance(looked, Queued)
    assert [wake.run_id for wake in looked.owed] == [three.run_id]
    assert stage.run(control.timer(three, again_ms=1_000)) is None
    assert three.run_id not in stage.due()


def test_who_waits_while_the_budget_is_held_is_looked_at_later_again(stage: Stage) -> None:
    _, (one, two) = children(stage, 2, budget=budget(usd=0.5))
    ask(stage, one)
    ask(stage, two)
    first = stage.due()[two.run_id]
    assert stage.run(control.timer(two, again_ms=1_000)) is None
    assert stage.due()[two.run_id] >= first
    assert phase(stage, two) is Phase.PAUSED_BUDGET


def test_when_what_was_held_is_used_those_that_wait_are_paused_for_good(stage: Stage) -> None:
    root, (one, two) = children(stage, 2, budget=budget(usd=0.7))
    attempt, _ = ask(stage, one)
    assert ask(stage, two)[1] == Paused(False, ())
    reply = stage.run(attempt.model(micro_usd=400_000))
    assert woken(reply) == [], "0.30 of 0.70 USD are left, and it needs 0.40"
    assert told(stage, root, "budget.paused") == [{"name": "usd", "used": 0.4, "limit": 0.7}]
    view = stage.run(reading.read_asked(root))
    assert view is not None
    assert view.is_asking, "whoever waits for the root until somebody can act is told"


def test_nested_budgets_block_only_those_below_them(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=10.0))
    parent = stage.calling(root, "run_agent", "run_agent")
    tight = stage.child(parent, 0, budget=budget(usd=0.5))
    free = stage.child(parent, 1)
    attempt = stage.claim(tight, process="p2")
    stage.run(attempt.boundary(reservation=ASK))
    assert isinstance(ask(stage, free, process="p3")[1], Passed)
    assert held(stage, root) == 800_000
    stage.run(attempt.model(tools=["run_agent"], micro_usd=400_000))
    below = stage.child(attempt)
    assert isinstance(ask(stage, below, process="p4")[1], Paused), "the tighter one above it is spent"


# Spent.


def test_a_cap_is_what_may_be_used_to_the_last(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.4, tokens=1_500, input_tokens=1_000, output_tokens=500))
    attempt, passed = ask(stage, root)
    assert isinstance(passed, Passed)
    stage.run(attempt.finish(SubagentState.FAILED))
    for less in ({"usd": 0.399999}, {"tokens": 1_499}, {"input_tokens": 999}, {"output_tokens": 499}):
        assert ask(stage, stage.root(budget=budget(**less)))[1] == Paused(True, ())


def test_a_spent_budget_pauses_until_it_is_raised(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.5))
    attempt, _ = ask(stage, root)
    stage.run(attempt.model(tools=["search"], micro_usd=300_000))
    stage.run(attempt.tool(0))
    call = attempt.boundary(results=[0], pin=None, reservation=ASK)
    assert stage.run(call) == Paused(True, ())
    record = stage.record(root)
    assert (record.state, record.phase) == (SubagentState.RUNNING, Phase.PAUSED_BUDGET)
    assert told(stage, root, "budget.paused") == [{"name": "usd", "used": 0.3, "limit": 0.5}]
    assert stage.run(reading.read_asked(root)).is_asking

    raised = stage.run(budgets.raise_budget(root, {"usd": 2_000_000}))
    assert isinstance(raised, Raised)
    assert woken(raised) == [root.run_id]
    again = stage.claim(root)
    assert again.claimed.journal == {"1:0": '"found"'}, "it goes on where it stood"
    assert isinstance(stage.run(again.boundary(results=[0], pin=None, reservation=ASK)), Passed)


def test_a_pause_before_the_first_boundary_is_one_while_running(stage: Stage) -> None:
    root = stage.root(budget=budget(tokens=100))
    assert ask(stage, root)[1] == Paused(True, ())
    assert stage.state(root) is SubagentState.RUNNING


def test_a_budget_that_stops_ends_the_run_at_its_boundary(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.5, on_spent="stop"))
    attempt, _ = ask(stage, root)
    stage.run(attempt.model(tools=["search"], micro_usd=300_000))
    stage.run(attempt.tool(0))
    before = stage.dump()
    spent = stage.run(attempt.boundary(results=[0], pin=None, reservation=ASK))
    assert spent == Spent("usd", "0.300000", "0.500000")
    assert stage.dump() == before
    assert isinstance(stage.run(attempt.finish(SubagentState.INTERRUPTED)), Ended)


def test_a_run_that_waits_under_a_budget_that_stops_is_woken_to_end(stage: Stage) -> None:
    _, (one, two) = children(stage, 2, budget=budget(usd=0.7, on_spent="stop"))
    attempt, _ = ask(stage, one)
    assert ask(stage, two)[1] == Paused(False, ()), "short only by what another has reserved"
    assert woken(stage.run(attempt.model(micro_usd=400_000))) == [two.run_id]
    assert isinstance(ask(stage, two)[1], Spent)


def test_wall_time_counts_from_the_launch(stage: Stage) -> None:
    root = stage.root(budget=budget(wall_seconds=3600.0))
    attempt, passed = ask(stage, root)
    assert isinstance(passed, Passed)
    stage.run(attempt.model(tools=["search"]))
    stage.run(attempt.tool(0))
    account = stage.part(root, "tree:{}:b")
    stage.server.hincrby(account, "0/cr", -3_600_000)
    assert stage.run(attempt.boundary(results=[0], pin=None, reservation=ASK)) == Paused(True, ())
    assert told(stage, root, "budget.paused")[0]["name"] == "wall_seconds"


def test_a_model_without_a_price_is_refused_under_a_budget_in_usd_only(stage: Stage) -> None:
    unknown = Reservation(10, 10, None, 0)
    root = stage.root(budget=budget(usd=1.0))
    before = stage.claim(root)
    dump = stage.dump()
    assert stage.run(before.boundary(reservation=unknown)) == Unpriced()
    assert stage.dump() == dump
    assert isinstance(ask(stage, stage.root(budget=budget(tokens=1_000)), unknown)[1], Passed)


def test_marks_and_deadlines_come_before_budgets(stage: Stage) -> None:
    root = stage.root(budget=budget(tokens=1))
    attempt = stage.claim(root)
    stage.cancel(root)
    assert stage.run(attempt.boundary(reservation=ASK)) == Stopped("CANCEL")
    stage.run(attempt.finish(SubagentState.CANCELLED))


def test_a_paused_run_ends_by_a_cancel_and_by_its_deadline(stage: Stage) -> None:
    cancelled = stage.root(budget=budget(tokens=1))
    ask(stage, cancelled)
    stage.cancel(cancelled)
    stage.sweep(cancelled)
    assert stage.state(cancelled) is SubagentState.CANCELLED
    late = stage.root(budget=budget(tokens=1), timeout_ms=60_000)
    ask(stage, late)
    stage.expire_deadline(late)
    assert isinstance(stage.run(control.timer(late, again_ms=1_000)), Ended)
    assert stage.state(late) is SubagentState.INTERRUPTED


# Tool calls.


def test_tool_calls_are_counted_when_they_are_asked_for(stage: Stage) -> None:
    root = stage.root(budget=budget(tool_calls=3))
    attempt, _ = ask(stage, root)
    call = attempt.model(tools=["a", "b"])
    assert stage.run(call) == RecordedResponse(2)
    assert stage.run(call) == RecordedResponse(2), "a repeat counts nothing"
    for index in range(2):
        stage.run(attempt.tool(index))
    assert isinstance(stage.run(attempt.boundary(results=[0, 1], pin=None, reservation=ASK)), Passed)
    assert stage.run(attempt.model(tools=["a", "b"])) == RecordedResponse(1)
    assert stage.record(root).calls_allowed == 1, "the next attempt knows it too"


# Warnings and raises.


def test_one_warning_for_each_cap_and_another_for_a_raised_one(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0, input_tokens=1_200, tool_calls=2))
    attempt, _ = ask(stage, root, Reservation(1, 1, 1, 0))

    def respond(micro_usd: int) -> None:
        stage.run(attempt.model(tools=["a"], micro_usd=micro_usd, tokens=(500, 1)))
        stage.run(attempt.tool(0))
        stage.run(attempt.boundary(results=[0], pin=None, reservation=Reservation(1, 1, 1, 0)))

    respond(790_000)
    assert told(stage, root, "budget.warning") == []
    respond(10_000)
    respond(10_000)
    assert told(stage, root, "budget.warning") == [
        {"name": "input_tokens", "used": 1_000, "limit": 1_200},
        {"name": "usd", "used": 0.8, "limit": 1.0},
        {"name": "tool_calls", "used": 2, "limit": 2},
    ]
    stage.run(budgets.raise_budget(root, {"usd": 1_005_000, "input_tokens": 2_000}))
    again = stage.claim(root)  # the input tokens had run out
    attempt = again
    stage.run(again.boundary(results=[0], pin=None, reservation=Reservation(1, 1, 1, 0)))
    stage.run(again.model(micro_usd=1, tokens=(1, 1)))
    assert [data["name"] for data in told(stage, root, "budget.warning")[3:]] == ["usd"]


def test_a_raise_wakes_only_below_it_and_what_still_does_not_fit_stays(stage: Stage) -> None:
    root, runs = children(stage, 3, budget=budget(usd=0.1))
    for run in runs:
        assert ask(stage, run)[1] == Paused(True, ())
    other = stage.root(budget=budget(usd=0.1))
    ask(stage, other)
    raised = stage.run(budgets.raise_budget(root, {"usd": 900_000}))
    assert woken(raised) == [runs[0].run_id, runs[1].run_id]
    assert phase(stage, runs[2]) is Phase.PAUSED_BUDGET
    assert phase(stage, other) is Phase.PAUSED_BUDGET
    repeated = stage.run(budgets.raise_budget(root, {"usd": 900_000}))
    assert isinstance(repeated, Raised)


def test_a_raise_that_is_none_is_refused_whole(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=1.0, tokens=100))
    before = stage.dump()
    refusals = {
        (("usd", 2_000_000), ("tool_calls", 5)): NotRaised("NO_CAP", "tool_calls"),
        (("tokens", 200), ("usd", 999_999)): NotRaised("LOWER", "usd", 1_000_000),
    }
    for caps, expected in refusals.items():
        assert stage.run(budgets.raise_budget(root, dict(caps))) == expected
    assert stage.dump() == before
    plain = stage.root()
    assert stage.run(budgets.raise_budget(plain, {"usd": 1})) == NotRaised("NO_BUDGET")
    stage.end(plain)
    assert stage.run(budgets.raise_budget(plain, {"usd": 1})).reason == "TERMINAL"
    nobody = stage.key(stage.new_run().run_id)
    assert stage.run(budgets.raise_budget(nobody, {"usd": 1})) == NotRaised("UNKNOWN")


def test_a_budget_outlives_its_run_for_those_that_it_abandoned(stage: Stage) -> None:
    root = stage.root(budget=budget(usd=0.5))
    parent, _ = ask(stage, root)
    stage.run(parent.model(tools=["search"], micro_usd=200_000))
    child = stage.child(parent, slot=None, slot_tool="", abandon=True)
    stage.run(parent.finish())
    stage.forget(root)
    assert ask(stage, child, process="p2")[1] == Paused(True, ())
    stage.cancel(child)
    stage.sweep(child)


def test_a_run_without_a_budget_above_it_has_nothing_of_this_on_its_record(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["search"]))
    assert not {"bk", "rin", "bta"} & set(stage.record(root).fields)
    assert stage.part(root, "tree:{}:b") not in stage.dump()


def test_more_than_fit_at_once_go_on_one_after_the_other(stage: Stage) -> None:
    """A hundred wait; each that ends lets the next pass, and none is left behind."""
    root, runs = children(stage, 20, budget=budget(usd=100.0), max_live_children=200)
    parents = []
    for run in runs[:5]:
        parent, _ = ask(stage, run, Reservation(0, 0, 0, 0))
        stage.run(parent.model(tools=["run_agent"] * 20, micro_usd=0, tokens=(1, 0)))
        parents.append([stage.child(parent, index) for index in range(20)])
        stage.run(parent.suspend(parents[-1]))
    line = [run for below in parents for run in below]
    big = Reservation(0, 0, 60_000_000, 0)
    current = [
        attempt for run in line for attempt, reply in [ask(stage, run, big)] if isinstance(reply, Passed)
    ]
    assert len(current) == 1
    ended = 0
    while current:
        reply = stage.run(current.pop().finish())
        ended += 1
        going_on = [stage.key(run_id) for run_id in woken(reply)]
        assert len(going_on) <= 1
        current = [ask(stage, run, big)[0] for run in going_on]
    assert ended == len(line)
    assert held(stage, root) == 0
