from __future__ import annotations

import pytest

from retinue.contract import (
    PHASES_OF,
    TERMINAL_STATES,
    TRANSITIONS,
    ErrorClassification,
    Phase,
    SubagentState,
)

SHOWN_ONLY = {SubagentState.CANCEL_REQUESTED, SubagentState.UNKNOWN}


def test_the_states_are_the_nine_of_the_contract() -> None:
    assert {state.value for state in SubagentState} == {
        "PENDING",
        "STARTING",
        "RUNNING",
        "SUCCEEDED",
        "FAILED",
        "INTERRUPTED",
        "CANCEL_REQUESTED",
        "CANCELLED",
        "UNKNOWN",
    }


def test_every_name_equals_its_value() -> None:
    assert all(
        member.name == member.value for kind in (SubagentState, ErrorClassification) for member in kind
    )


def test_cancel_requested_and_unknown_are_never_stored() -> None:
    reachable = set(TRANSITIONS).union(*TRANSITIONS.values())
    assert reachable == set(SubagentState) - SHOWN_ONLY


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_a_terminal_state_never_changes(state: SubagentState) -> None:
    assert TRANSITIONS[state] == frozenset()


@pytest.mark.parametrize("state", ["PENDING", "STARTING", "RUNNING"])
def test_a_live_state_can_end_but_never_goes_back(state: str) -> None:
    order = [SubagentState.PENDING, SubagentState.STARTING, SubagentState.RUNNING]
    current = SubagentState(state)
    assert TRANSITIONS[current] & TERMINAL_STATES
    assert not TRANSITIONS[current] & set(order[: order.index(current) + 1])


def test_a_run_that_never_started_cannot_succeed() -> None:
    assert SubagentState.SUCCEEDED not in TRANSITIONS[SubagentState.PENDING]
    assert SubagentState.RUNNING not in TRANSITIONS[SubagentState.PENDING]


def test_every_state_has_phases_and_every_phase_has_a_state() -> None:
    assert set(PHASES_OF) == set(SubagentState)
    assert frozenset().union(*PHASES_OF.values()) == frozenset(Phase)


def test_a_state_that_has_ended_has_no_phase_and_the_others_have_a_named_one() -> None:
    for state, phases in PHASES_OF.items():
        without = state in TERMINAL_STATES or state is SubagentState.UNKNOWN
        assert (phases == {Phase.NONE}) if without else (Phase.NONE not in phases), state


def test_a_run_under_a_cancel_may_be_in_the_phase_of_any_live_state() -> None:
    live = [PHASES_OF[state] for state in TRANSITIONS if state not in TERMINAL_STATES]
    assert PHASES_OF[SubagentState.CANCEL_REQUESTED] == frozenset().union(*live)


def test_the_tables_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[SubagentState.FAILED] = frozenset({SubagentState.RUNNING})  # pyright: ignore[reportIndexIssue]
