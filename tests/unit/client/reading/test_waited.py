"""When a wait for the first of several runs is over, and what it answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retinue.client.clock import WaitClock
from retinue.client.reading.waited import WaitedRuns
from retinue.client.scope import Target
from retinue.contract import HandleKey, Keyring, SubagentState, WaitUntil
from retinue.store.call import RunKey
from retinue.store.operations.reading import RunView
from retinue.store.record import Record

RING = Keyring([HandleKey("k1", b"x" * 32)])


def target(letter: str) -> Target:
    fields: dict[str, Any] = {
        "subagent_id": "sa-p07-" + letter * 26,
        "parent_session_id": "s",
        "correlation_id": None,
        "created_at": 1.0,
        "provider": None,
        "model": None,
        "role": "leaf",
        "depth": 0,
    }
    handle = RING.mint("_", fields)
    return Target(handle, RunKey("_", handle.subagent_id))


def view(state: str) -> RunView:
    return RunView(
        Record({"st": state, "ph": "", "ag": "support", "cr": "1000", "up": "5000", "im": "2"}), False
    )


ONE, TWO = target("a"), target("b")


def views(one: RunView | None, two: RunView | None) -> dict[str, RunView | None]:
    return {ONE.key.run_id: one, TWO.key.run_id: two}


def test_the_first_end_of_several_is_enough() -> None:
    waited = WaitedRuns([(ONE.handle, ONE), (TWO.handle, TWO), (ONE.handle, ONE)], WaitClock())
    assert waited.keys == [ONE.key, TWO.key]
    assert not waited.is_enough(views(view("RUNNING"), view("PENDING")))
    assert waited.is_enough(views(view("RUNNING"), view("FAILED")))
    assert waited.is_enough(views(None, view("RUNNING")))


def test_one_look_is_enough_once_the_time_is_over_or_a_handle_leads_nowhere() -> None:
    running = views(view("RUNNING"), view("RUNNING"))
    assert WaitedRuns([(ONE.handle, ONE)], WaitClock(0)).is_enough(running)
    assert WaitedRuns([(ONE.handle, ONE), ("junk", None)], WaitClock()).is_enough(running)


def test_the_answers_stand_in_the_order_of_the_handles() -> None:
    waited = WaitedRuns([("junk", None), (TWO.handle, TWO), (ONE.handle, ONE)], WaitClock(0))
    ends = waited.answer(views(view("SUCCEEDED"), view("RUNNING")))
    states = [SubagentState.UNKNOWN, SubagentState.RUNNING, SubagentState.SUCCEEDED]
    assert [end.state for end in ends] == states
    assert not any(end.timed_out for end in ends)


def test_of_a_part_that_is_all_waited_for_the_last_is_watched_until_none_is_left() -> None:
    (part,) = WaitedRuns([(ONE.handle, ONE), ("junk", None), (TWO.handle, TWO)], WaitClock()).parts()
    assert (part.keys, part.watched) == ([ONE.key, TWO.key], [TWO.key])
    assert not part.is_enough(views(view("SUCCEEDED"), view("RUNNING")))
    assert part.is_enough(views(view("RUNNING"), view("FAILED")))
    rest = part.rest(views(view("RUNNING"), view("FAILED")))
    assert rest is not None
    assert (rest.keys, rest.watched) == ([ONE.key], [ONE.key])
    assert rest.rest(views(None, view("FAILED"))) is None


def test_a_wait_for_all_ends_with_its_time_and_says_so_of_those_that_go_on() -> None:
    waited = WaitedRuns([(ONE.handle, ONE), (TWO.handle, TWO)], WaitClock(0))
    (part,) = waited.parts()
    seen = views(view("SUCCEEDED"), view("RUNNING"))
    assert part.is_enough(seen)
    assert part.rest(seen) is None
    assert [end.timed_out for end in waited.answer_all(seen)] == [False, True]


def test_it_timed_out_if_the_time_ran_out_and_nothing_had_ended() -> None:
    running = views(view("RUNNING"), view("RUNNING"))
    assert WaitedRuns([(ONE.handle, ONE)], WaitClock(0)).answer(running)[0].timed_out
    assert not WaitedRuns([(ONE.handle, ONE)], WaitClock()).answer(running)[0].timed_out


def test_a_wait_for_a_human_is_over_once_one_is_asked_which_is_no_end() -> None:
    waited = WaitedRuns([(ONE.handle, ONE)], WaitClock(0), WaitUntil.ASKED)
    assert waited.read(ONE.key).script.name == "read_asked"
    asking = {ONE.key.run_id: replace(view("RUNNING"), is_asking=True)}
    assert WaitedRuns([(ONE.handle, ONE)], WaitClock(), WaitUntil.ASKED).is_enough(asking)
    [end] = waited.answer(asking)
    assert (end.completed, end.timed_out) == (False, False)
    assert "pending()" in str(end.diagnostic)
    assert WaitedRuns([(ONE.handle, ONE)], WaitClock()).read(ONE.key).script.name == "read"
