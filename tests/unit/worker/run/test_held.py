"""A held run: what a claim hands out, as an attempt uses it."""

from __future__ import annotations

import time

import pytest

from retinue.agents import Grant
from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket
from retinue.contract import Role, SubagentLaunchRequest, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence
from retinue.worker.run.held import HeldRun

KEY = RunKey("acme", new_run_id(7))
NOW_MS = 1_700_000_000_000
SECRET = "the goal of a customer"


def held(*, deadline_ms: int = 0, epoch: int = 1, spec_json: str | None = None, **fields: str) -> HeldRun:
    record = Record({"im": "3", "it": "4", "dl": str(deadline_ms), "t:search": "2", "tin": "9", **fields})
    claimed = Claimed(
        fence=Fence(epoch, "token"),
        now_ms=NOW_MS,
        record=record,
        request_json="{}",
        spec_json=spec_json,
        thread=[SECRET],
        journal={"3:0": SECRET},
        grants=[],
    )
    ticket = Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF)
    return HeldRun.of(KEY, claimed, ticket, EffectiveSpec(agent="support", max_iterations=50), Grant())


def test_an_attempt_goes_on_from_the_last_recorded_response() -> None:
    run = held()
    assert (run.iteration, run.thread, run.journal) == (3, [SECRET], {"3:0": SECRET})
    assert (run.record.usage.input_tokens, run.record.usage.tools) == (9, {"search": 2})


def test_operations_are_told_apart_by_token_and_number() -> None:
    run = held()
    assert [run.operation() for _ in range(3)] == ["token:1", "token:2", "token:3"]


def test_the_deadline_is_counted_from_the_servers_clock() -> None:
    run = held(deadline_ms=NOW_MS + 500_000)
    assert run.deadline == pytest.approx(time.monotonic() + 500, abs=60)
    left = run.seconds_left
    assert left is not None
    assert 440 < left <= 500


def test_without_a_deadline_time_is_not_limited() -> None:
    assert held().seconds_left is None


def test_a_deadline_that_has_passed_leaves_no_time() -> None:
    assert held(deadline_ms=NOW_MS - 5_000).seconds_left == 0.0


def test_a_deadline_that_stands_still_is_as_far_as_it_was_when_the_human_was_first_awaited() -> None:
    run = held(deadline_ms=NOW_MS - 55_000, hw="1", hs=str(NOW_MS - 60_000))
    assert run.seconds_left == pytest.approx(5, abs=1)


@pytest.mark.parametrize(("epoch", "before"), [(1, False), (2, True)])
def test_a_second_claim_knows_of_the_first(epoch: int, before: bool) -> None:
    assert held(epoch=epoch).was_attempted_before is before


@pytest.mark.parametrize(("spec_json", "pinned"), [(None, False), ("{}", True)])
def test_a_spec_that_the_store_handed_out_is_not_pinned_again(spec_json: str | None, pinned: bool) -> None:
    assert held(spec_json=spec_json).spec_is_pinned is pinned


class Slots:
    """Counts what is lent."""

    def __init__(self) -> None:
        self.lent: list[int] = [0]

    def lend(self) -> None:
        self.lent.append(self.lent[-1] + 1)

    def take_back(self) -> None:
        self.lent.append(self.lent[-1] - 1)


def test_only_the_first_wait_lends_the_slot_and_only_the_last_takes_it_back() -> None:
    run, slots = held(), Slots()
    for step in (run.begin_wait, run.begin_wait, run.end_wait, run.end_wait, run.begin_wait):
        step(slots)
    assert slots.lent == [0, 1, 0, 1]


def test_an_attempt_that_leaves_takes_back_what_its_waits_have_lent_and_they_change_nothing_more() -> None:
    run, slots = held(), Slots()
    run.begin_wait(slots)
    run.begin_wait(slots)
    run.leave(slots)
    assert slots.lent == [0, 1, 0]
    run.end_wait(slots)
    run.end_wait(slots)
    run.begin_wait(slots)
    run.end_wait(slots)
    run.leave(slots)
    assert slots.lent == [0, 1, 0]


def test_an_attempt_that_leaves_with_no_wait_has_nothing_to_take_back() -> None:
    run, slots = held(), Slots()
    run.begin_wait(slots)
    run.end_wait(slots)
    run.leave(slots)
    assert slots.lent == [0, 1, 0]


def test_a_tool_is_told_to_stop_by_an_alarm_the_deadline_or_the_attempts_end() -> None:
    assert not held(deadline_ms=NOW_MS + 60_000).should_stop
    # What it was told at its claim may have moved: the store says whether its time is over.
    assert not held(deadline_ms=NOW_MS - 1).should_stop
    late, alarmed, left = held(deadline_ms=NOW_MS - 1), held(), held()
    late.is_out_of_time = True
    assert late.should_stop
    alarmed.alarm.set()
    left.leave(Slots())
    assert alarmed.should_stop
    assert left.should_stop


def test_its_repr_shows_no_message() -> None:
    run = held()
    run.partial = SECRET
    assert SECRET not in repr(run)
