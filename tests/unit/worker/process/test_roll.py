"""The roll: a run that a process holds stays on it, whoever else tried to get hold of it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from retinue.store.call import RunKey
from retinue.worker.process.roll import Roll

KEY = RunKey("_", "sa-p07-" + "a" * 26)


@pytest.mark.parametrize("holder", range(3))
def test_a_run_is_held_until_the_last_of_several_attempts_has_left(holder: int) -> None:
    """Three wake-ups of one run came in before any claim was answered; one of them got the run."""
    roll = Roll()
    attempts = [ExitStack() for _ in range(3)]
    entries = [attempt.enter_context(roll.entered(KEY)) for attempt in attempts]
    for number, attempt in enumerate(attempts):
        if number != holder:
            attempt.close()

    assert roll.members() == {KEY.member}
    roll.alarm(KEY.run_id)
    assert entries[holder].alarmed
    attempts[holder].close()
    assert roll.members() == set()
    assert len(roll) == 0
