"""Agents by value in a request: every form becomes a document, and where the agent's document is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.launching.test_planning import SNAPSHOT, fault, parent, plan

from retinue.client import ErrorCode, SubagentLaunchRequest, SubagentLifecycleError
from retinue.client.launching.documents import DocumentOrigin
from retinue.client.launching.requests import launch_request
from retinue.client.launching.ticket import Ticket
from retinue.contract import document_digest, new_run_id

SPEC: dict[str, Any] = {"component_type": "Agent", "name": "desk", "system_prompt": "p"}
HOLDER = new_run_id(7)
ORIGIN = DocumentOrigin("d" * 64, HOLDER, frozenset({"desk", "clerk", "support"}))


def spec_of(value: object, field: str = "agent") -> object:
    request = launch_request(goal="g", **{field: value})
    assert request.agent is None
    return request.agent_spec


@pytest.mark.parametrize("field", ["agent", "agent_spec"])
def test_each_form_gives_the_same_document(tmp_path: Path, field: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(SPEC))
    yaml = "component_type: Agent\nname: desk\nsystem_prompt: p\n"

    assert all(spec_of(form, field) == SPEC for form in (SPEC, json.dumps(SPEC), yaml, path))
    assert launch_request({"goal": "g", field: yaml}).agent_spec == SPEC


def test_a_name_and_a_request_stay_as_they_are() -> None:
    assert launch_request(goal="g", agent="desk").agent == "desk"
    request = SubagentLaunchRequest(goal="g", agent_spec=SPEC)
    assert launch_request(request) == request


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"agent": "{not json"}, "agent"),
        ({"agent": "a: [\nb"}, "agent"),
        ({"agent": "just\ntext"}, "agent_spec"),
        ({"agent": Path("/nowhere/spec.yaml")}, "agent"),
        ({"agent": SPEC, "agent_spec": SPEC}, "agent"),
        ({"agent": 7}, "agent"),
        ({"agent_spec": 7}, "agent_spec"),
    ],
)
def test_what_cannot_be_read_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        launch_request(goal="g", **fields)
    assert caught.value.field == field
    assert caught.value.mend


def test_a_launch_by_value_needs_no_worker_that_knows_it_and_keeps_its_document() -> None:
    made = plan({"agent_spec": SPEC})

    assert (made.new_run.agent, made.new_run.queue) == ("desk", "retinue")
    assert made.new_run.document == document_digest(SPEC)
    ticket = Ticket.from_json(made.new_run.request_json)
    assert ticket.request.agent_spec == SPEC
    assert ticket.document is None


def test_a_route_counts_and_what_workers_advertise_under_the_name_does_not() -> None:
    named = {**SPEC, "name": "support"}
    assert plan({"agent_spec": named}).new_run.queue == "retinue"
    assert plan({"agent_spec": named}).ticket.model is None
    assert plan({"agent_spec": named}, settings={"routes": {"sup*": "fast"}}).new_run.queue == "fast"


def test_a_child_is_looked_for_in_its_parents_document_first() -> None:
    below = parent(document=ORIGIN)

    member, stranger = plan({"agent": "clerk"}, parent=below), plan({"agent": "researcher"}, parent=below)

    assert (member.new_run.document, member.ticket.document) == (ORIGIN.digest, HOLDER)
    assert Ticket.from_json(member.new_run.request_json) == member.ticket
    assert (stranger.new_run.document, stranger.ticket.document) == (None, None)
    # A name of both means the document's.
    assert plan({"agent": "support"}, parent=below).new_run.queue == "retinue"


def test_a_child_by_value_brings_its_own() -> None:
    made = plan({"agent_spec": SPEC}, parent=parent(document=ORIGIN))

    assert made.new_run.document == document_digest(SPEC)
    assert made.ticket.document is None


def test_tools_that_no_worker_has_are_refused_all_at_once() -> None:
    def tool(name: str) -> dict[str, Any]:
        return {"component_type": "ServerTool", "name": name}

    known = [tool("search_handbook"), tool("Search handbook")]
    assert plan({"agent_spec": {**SPEC, "tools": known}}).new_run.document

    error = fault({"agent_spec": {**SPEC, "tools": [*known, tool("burn"), tool("bury")]}})
    assert error.code is ErrorCode.UNKNOWN_TOOLSET
    assert "'burn', 'bury'" in error.message
    assert "handbook" not in error.message


def test_without_any_worker_ever_it_is_refused_like_any_launch() -> None:
    from tests.unit.client.launching.test_planning import EMPTY

    assert fault({"agent_spec": SPEC}, snapshot=EMPTY).code is ErrorCode.NO_WORKER
    assert plan({"agent_spec": SPEC}, snapshot=SNAPSHOT).new_run.lacks_worker
