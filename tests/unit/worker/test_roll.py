"""The roll: who is on it while several wake-ups of one run come and go, and who hears an alarm."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest

from retinue.contract import new_run_id
from retinue.store.call import RunKey
from retinue.worker.roll import Entry, Roll

KEY = RunKey("acme", new_run_id(7))


class Held:
    def __init__(self) -> None:
        self.alarm = asyncio.Event()


def hold(entry: Entry) -> Any:
    run: Any = Held()
    entry.held(run)
    return run


def test_a_run_is_on_the_roll_from_before_its_claim_to_the_end_of_its_attempt() -> None:
    roll = Roll()
    with roll.entered(KEY) as entry:
        assert roll.members() == {KEY.member}
        hold(entry)
        assert (roll.members(), len(roll)) == ({KEY.member}, 1)
    assert (roll.members(), len(roll)) == (set(), 0)


def test_it_leaves_the_roll_when_its_attempt_fails() -> None:
    roll = Roll()
    with pytest.raises(ValueError), roll.entered(KEY):
        raise ValueError
    assert roll.members() == set()


@pytest.mark.parametrize("leaves_first", [0, 1])
@pytest.mark.parametrize("first_holds", [True, False])
def test_of_two_wake_ups_the_run_stays_until_the_last_has_left(leaves_first: int, first_holds: bool) -> None:
    roll, stacks = Roll(), [ExitStack(), ExitStack()]
    entries = [stack.enter_context(roll.entered(KEY)) for stack in stacks]
    if first_holds:
        hold(entries[0])

    stacks.pop(leaves_first).close()
    assert roll.members() == {KEY.member}
    stacks.pop().close()
    assert roll.members() == set()


async def test_an_alarm_reaches_every_attempt_on_the_run_and_no_other() -> None:
    roll = Roll()
    others = RunKey("acme", new_run_id(7))
    with roll.entered(KEY) as first, roll.entered(KEY) as second, roll.entered(others) as other:
        runs = [hold(entry) for entry in (first, second, other)]

        roll.alarm(KEY.run_id)

        assert [run.alarm.is_set() for run in runs] == [True, True, False]


async def test_an_alarm_during_the_claim_is_not_missed() -> None:
    roll = Roll()
    with roll.entered(KEY) as entry:
        roll.alarm(KEY.run_id)
        assert hold(entry).alarm.is_set()


def test_an_alarm_for_a_run_of_another_process_is_nothing() -> None:
    Roll().alarm(KEY.run_id)
