"""What callers read, made of records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from retinue.broker.catalogue import CatalogueSnapshot, WorkerEntry
from retinue.client import SubagentHandle, SubagentState
from retinue.client.launching.ticket import Verdict
from retinue.client.reading.answers import (
    ended_state,
    lacking_worker,
    reconnect_of,
    result_of,
    status_of,
    text_of,
)
from retinue.contract import HandleKey, Keyring
from retinue.store.operations.reading import RunResult, RunView, Steer
from retinue.store.record import Record

HANDLE: SubagentHandle = Keyring([HandleKey("k1", b"x" * 32)]).mint(
    "_",
    {
        "subagent_id": "sa-p07-" + "a" * 26,
        "parent_session_id": "s",
        "correlation_id": None,
        "created_at": 1.0,
        "provider": None,
        "model": None,
        "role": "leaf",
        "depth": 0,
    },
)


def view(state: str, *, under_cancel: bool = False, **fields: str) -> RunView:
    base = {"st": state, "ph": "", "ag": "support", "cr": "1000", "up": "5000", "im": "2"}
    return RunView(Record({**base, **fields}), under_cancel)


def run(found: RunView, **parts: object) -> RunResult:
    request = json.dumps({"request": {"goal": "g", "metadata": {"a": 1}}, "role": "leaf"})
    defaults = {"result_json": None, "partial": None, "request_json": request, "steers": ()}
    return RunResult(found, **{**defaults, **parts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "classification", "words"),
    [
        ("CANCELLED", "", "cancelled"),
        ("INTERRUPTED", "DEADLINE_EXCEEDED", "deadline"),
        ("INTERRUPTED", "INTERRUPT_REQUESTED", "interrupted"),
        ("INTERRUPTED", "MAX_ITERATIONS", "iterations"),
        ("INTERRUPTED", "BUDGET_EXCEEDED", "budget"),
        ("FAILED", "WORKER_LOST", "workers died"),
    ],
)
def test_a_run_that_the_store_ended_has_a_fitting_message_and_its_partial_text(
    state: str, classification: str, words: str
) -> None:
    found = run(view(state, cls=classification, fi="6000"), partial="so far")
    result = result_of(HANDLE, found)
    assert words in str(result.error_message)
    assert (result.error_classification or "") == classification
    assert result.summary == text_of(found) == "so far"
    assert (result.started_at, result.completed_at) == (None, 6.0)
    assert result.tool_execution_summary == {
        "duration_seconds": 0.0,
        "tool_calls": 0,
        "tools": {},
        "tool_seconds": {},
    }


def test_the_workers_own_words_win() -> None:
    verdict = Verdict(summary="half", message="the provider said no").to_json()
    found = view("FAILED", cls="MODEL_REJECTED", sa="2000", fi="6000")
    result = result_of(HANDLE, run(found, result_json=verdict, partial="older"))
    assert (result.summary, result.error_message) == ("half", "the provider said no")
    assert result.tool_execution_summary["duration_seconds"] == 4.0
    assert result.metadata == {"a": 1}


def test_a_success_has_no_message() -> None:
    result = result_of(HANDLE, run(view("SUCCEEDED", fi="6000"), result_json="{}"))
    assert (result.error_message, result.error_classification, result.summary) == (None, None, None)


def test_a_result_lists_every_steer_with_its_fate() -> None:
    steers = (Steer("a", "text", "d3"), Steer("b", "text", "m"))
    result = result_of(HANDLE, run(view("SUCCEEDED", fi="6000"), result_json="{}", steers=steers))
    assert [(s.steer_id, s.state, s.iteration) for s in result.steers] == [
        ("a", "delivered", 3),
        ("b", "missed", None),
    ]


def test_a_live_run_has_a_state_and_no_result() -> None:
    found = view("RUNNING", under_cancel=True, ph="model_call")
    result = result_of(HANDLE, run(found, partial="so far"))
    assert (result.ready, result.terminal_state) == (False, SubagentState.CANCEL_REQUESTED)
    assert text_of(run(found, partial="so far")) is None


def test_a_run_without_a_worker_says_for_which_agent() -> None:
    status = status_of(HANDLE, view("PENDING", ph="no_worker", dl="9000"))
    assert "'support'" in str(status.diagnostic)
    assert status.limits["deadline_at"] == 9.0
    assert status_of(HANDLE, view("PENDING", ph="queued")).diagnostic is None


@pytest.mark.parametrize(
    ("fields", "at", "left"),
    [
        ({"dl": "0"}, None, None),
        ({"dl": "9000"}, 9.0, 2.0),
        ({"dl": "6000"}, 6.0, 0.0),
        # It stands still since 4.0: when it goes on, as much is left as then.
        ({"dl": "9000", "hw": "2", "hs": "4000"}, 12.0, 5.0),
        ({"dl": "3000", "hw": "1", "hs": "4000"}, 7.0, 0.0),
        ({"dl": "0", "hw": "1", "hs": "4000"}, None, None),
        # After the end nothing moves any more.
        ({"dl": "9000", "fi": "5000"}, 9.0, 4.0),
    ],
)
def test_a_status_tells_the_deadline_and_what_is_left_of_it(
    fields: dict[str, str], at: float | None, left: float | None
) -> None:
    limits = status_of(HANDLE, replace(view("RUNNING", **fields), now_ms=7_000)).limits
    assert (limits["deadline_at"], limits["seconds_left"]) == (at, left)


def test_a_status_tells_which_counts_are_limited() -> None:
    fields = {"mi": "7", "mtc": "0", "mxd": "2", "mxc": "5", "mxt": "0"}
    limits = status_of(HANDLE, view("RUNNING", **fields)).limits
    assert (limits["max_iterations"], limits["max_tool_calls"], limits["max_depth"]) == (7, 0, 2)
    assert (limits["max_live_children"], limits["max_tree_children"]) == (5, 0)
    assert status_of(HANDLE, view("RUNNING")).limits["max_tool_calls"] is None


def test_a_queued_run_whose_worker_is_gone_lacks_one_whatever_its_record_says() -> None:
    gone = CatalogueSnapshot({}, {}, {}, frozenset())
    back = CatalogueSnapshot({"p1": WorkerEntry("p1", agents=("support",))}, {}, {}, frozenset())
    queued, resumed = view("PENDING", ph="queued"), view("RUNNING", ph="queued")
    by_value, held = view("PENDING", ph="queued", ag="own", doc="d"), view("RUNNING", ph="model_call")
    views = [queued, resumed, by_value, held, None]
    assert lacking_worker(views, gone) == [True, True, True, False, False]
    assert lacking_worker(views, back) == [False] * 5

    status = status_of(HANDLE, queued, lacks_worker=True)
    assert (status.phase, "'support'" in str(status.diagnostic)) == ("no_worker", True)
    status = status_of(HANDLE, resumed, lacks_worker=True)
    assert (status.phase, "'support'" in str(status.diagnostic)) == ("queued", True)


def test_nothing_there_is_unknown_everywhere() -> None:
    assert status_of(HANDLE, None).state == SubagentState.UNKNOWN
    assert result_of(HANDLE, None).error_classification == "UNKNOWN_HANDLE"
    assert ended_state(HANDLE, None).completed
    assert not reconnect_of(None).connected


def test_a_wait_that_timed_out_on_an_ended_run_did_not_time_out() -> None:
    assert not ended_state(HANDLE, view("SUCCEEDED"), timed_out=True).timed_out
    assert ended_state(HANDLE, view("RUNNING"), timed_out=True).timed_out


def test_a_wait_that_timed_out_for_want_of_a_worker_says_so() -> None:
    lacking = view("PENDING", ph="no_worker")
    assert "'support'" in str(ended_state(HANDLE, lacking, timed_out=True).diagnostic)
    assert ended_state(HANDLE, lacking).diagnostic is None
    assert ended_state(HANDLE, view("PENDING", ph="queued"), timed_out=True).diagnostic is None
