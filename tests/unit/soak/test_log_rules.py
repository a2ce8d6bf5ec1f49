"""The rules of event logs find what breaks them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.soak.log_rules import broken_rules

from retinue.contract import Event

Entry = tuple[str, str, dict[str, Any]]
CREATED: Entry = ("run.created", "r", {"agent": "a", "parent_id": None, "path": "0/"})
STARTED: Entry = ("run.started", "r", {"attempt": 1, "process": "p"})
FINISHED: Entry = ("run.finished", "r", {"state": "SUCCEEDED", "classification": None})
CALL = {"iteration": 1, "index": 0, "tool": "t"}
TOOL_STARTED: Entry = ("tool.started", "r", CALL)
TOOL_FINISHED: Entry = ("tool.finished", "r", {**CALL, "ok": True, "duration_ms": 1})
QUEUED: Entry = ("steer.queued", "r", {"steer": "s"})
MISSED: Entry = ("steer.missed", "r", {"steer": "s"})
SUSPENDED: Entry = ("run.suspended", "r", {"phase": "waiting_children", "open": 1})
RESUMED: Entry = ("run.resumed", "r", {"wakeup": 2})
ASKED: Entry = ("approval.requested", "r", CALL)
DECIDED: Entry = ("approval.decided", "r", {**CALL, "decision": "denied", "reason": ""})


def asks(iteration: int) -> Entry:
    return ("model.started", "r", {"iteration": iteration})


def answers(iteration: int) -> Entry:
    return ("model.finished", "r", {"iteration": iteration, "input_tokens": 1, "output_tokens": 1})


def child(parent: str) -> Entry:
    return ("run.created", "c", {"agent": "a", "parent_id": parent, "path": "0/0/"})


def broken(*entries: Entry) -> list[str]:
    log = [
        Event.model_validate({"sequence": n, "type": kind, "run_id": run, "at": 0, "data": data})
        for n, (kind, run, data) in enumerate(entries, start=1)
    ]
    return broken_rules(log, all_ended=True)


@pytest.mark.parametrize(
    "log",
    [
        (CREATED, FINISHED),
        (CREATED, STARTED, asks(1), answers(1), FINISHED),
        # The worker was lost while the model was asked: asked again.
        (CREATED, STARTED, asks(1), RESUMED, asks(1), answers(1), FINISHED),
        (CREATED, STARTED, asks(1), answers(1), TOOL_STARTED, TOOL_FINISHED, asks(2), answers(2), FINISHED),
        (CREATED, STARTED, asks(1), answers(1), TOOL_STARTED, SUSPENDED, TOOL_FINISHED, RESUMED, FINISHED),
        (CREATED, STARTED, QUEUED, MISSED, FINISHED),
        (CREATED, STARTED, ASKED, DECIDED, FINISHED),
    ],
)
def test_what_may_happen_breaks_no_rule(log: tuple[Entry, ...]) -> None:
    assert broken(*log) == []


@pytest.mark.parametrize(
    ("log", "what"),
    [
        ((CREATED,), "has not ended"),
        ((CREATED, FINISHED, FINISHED), "run.finished after its end"),
        ((CREATED, FINISHED, QUEUED), "steer.queued after its end"),
        ((CREATED, CREATED, FINISHED), "created twice"),
        ((STARTED, CREATED, FINISHED), "run.started before it was created"),
        ((CREATED, STARTED, STARTED, FINISHED), "started twice"),
        ((CREATED, FINISHED, child("r")), "created below a run that is not live"),
        ((CREATED, asks(1), FINISHED), "while no worker can have held it"),
        ((CREATED, STARTED, SUSPENDED, asks(1), FINISHED), "while no worker can have held it"),
        ((CREATED, STARTED, asks(2), FINISHED), "asked iteration 2 after 0"),
        ((CREATED, STARTED, asks(1), answers(1), answers(1), FINISHED), "recorded iteration 1 after 1"),
        ((CREATED, STARTED, asks(1), answers(1), asks(1), FINISHED), "asked iteration 1 after 1"),
        ((CREATED, STARTED, asks(1), answers(1), TOOL_STARTED, asks(2), FINISHED), "unanswered"),
        ((CREATED, STARTED, TOOL_FINISHED, FINISHED), "finished without a start"),
        ((CREATED, STARTED, TOOL_STARTED, TOOL_FINISHED, TOOL_FINISHED, FINISHED), "finished twice"),
        ((CREATED, STARTED, QUEUED, FINISHED), "neither delivered nor missed"),
        ((CREATED, STARTED, QUEUED, MISSED, MISSED, FINISHED), "while it was not open"),
        ((CREATED, STARTED, MISSED, FINISHED), "while it was not open"),
        ((CREATED, STARTED, ASKED, FINISHED), "was never closed"),
        ((CREATED, STARTED, ASKED, DECIDED, DECIDED, FINISHED), "decided while it was not open"),
    ],
)
def test_what_must_not_happen_is_found(log: tuple[Entry, ...], what: str) -> None:
    assert any(what in line for line in broken(*log)), broken(*log)
