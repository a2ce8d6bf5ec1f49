"""What comes next for a run."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from retinue.contract import SubagentState
from retinue.worker.run.outcome import Fenced, Finish, HandBack, HandOff, Left, Outcome

SECRET = "what the model said"


def test_the_outcomes_are_these() -> None:
    assert set(get_args(Outcome)) == {Finish, Left, HandOff, HandBack, Fenced}


def test_a_finishs_repr_shows_no_text() -> None:
    finish = Finish(SubagentState.FAILED, None, SECRET, SECRET, payload={"text": SECRET})
    assert SECRET not in repr(finish)
    assert "FAILED" in repr(finish)


def test_a_run_does_not_end_by_itself_unless_it_is_said() -> None:
    assert not Finish(SubagentState.SUCCEEDED).natural


def test_an_outcome_does_not_change() -> None:
    outcome: Any = Left("waiting_children", 2)
    with pytest.raises(FrozenInstanceError):
        outcome.open = 3
