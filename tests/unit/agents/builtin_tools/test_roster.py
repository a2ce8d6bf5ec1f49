from __future__ import annotations

import json

import pytest

from retinue.agents import Delegation, RosterEntry
from retinue.agents.builtin_tools.roster import (
    HandoffCall,
    ListAgentsCall,
    RefusedCall,
    RunAgentCall,
    SendMessageCall,
    delegation_tools,
    read_delegation,
)

ROSTER = (
    RosterEntry(name="researcher", description="Answers.", when_to_use="for the handbook"),
    RosterEntry(name="Refund Specialist"),
)


def refused(tool: str, arguments: str) -> str:
    call = read_delegation(tool, arguments, ROSTER)
    assert isinstance(call, RefusedCall)
    return call.text


def test_run_agent_lists_the_roster_and_its_names_as_enum() -> None:
    run, listing = delegation_tools(Delegation.RUN_AGENT, ROSTER)
    assert (run.name, listing.name) == ("run_agent", "list_agents")
    assert "- researcher: Answers. (for the handbook)" in run.description
    assert run.parameters["additionalProperties"] is False
    assert run.parameters["required"] == ["name", "task"]
    assert run.parameters["properties"]["name"]["enum"] == ["researcher", "Refund Specialist"]  # pyright: ignore


def test_a_manager_gets_send_message_only() -> None:
    (send,) = delegation_tools(Delegation.SEND_MESSAGE, ROSTER)
    assert (send.name, send.parameters["required"]) == ("send_message", ["recipient", "message"])


def test_an_empty_roster_offers_nothing() -> None:
    assert delegation_tools(Delegation.RUN_AGENT, ()) == ()
    assert delegation_tools(Delegation.NONE, ROSTER) == ()


def test_calls_are_read() -> None:
    run = read_delegation("run_agent", '{"name": "researcher", "task": "find"}', ROSTER)
    assert run == RunAgentCall("researcher", "find")
    send = read_delegation("send_message", {"recipient": "refund_specialist", "message": "m"}, ROSTER)
    assert send == SendMessageCall(ROSTER[1], "m")
    listing = read_delegation("list_agents", "", ROSTER)
    assert isinstance(listing, ListAgentsCall)
    assert json.loads(listing.text)[0] == {
        "name": "researcher",
        "description": "Answers.",
        "when_to_use": "for the handbook",
    }


def test_an_unknown_name_gets_the_whole_roster() -> None:
    text = refused("run_agent", '{"name": "writer", "task": "x"}')
    assert "'writer'" in text
    assert "- researcher" in text
    assert "- Refund Specialist" in text


def test_an_invented_argument_is_refused_not_dropped() -> None:
    text = refused("run_agent", '{"name": "researcher", "task": "x", "instructions": "the real ones"}')
    assert "unknown argument 'instructions'" in text
    assert "Allowed: name, task" in text
    assert "takes no arguments" in refused("list_agents", '{"x": 1}')


@pytest.mark.parametrize("task", ["null", '""', '"  "', "3", '["x"]'])
def test_a_task_must_be_text(task: str) -> None:
    assert "'task'" in refused("run_agent", f'{{"name": "researcher", "task": {task}}}')


def test_a_task_over_the_goals_limit_is_refused_with_the_limit() -> None:
    assert "16000" in refused("run_agent", json.dumps({"name": "researcher", "task": "x" * 16_001}))
    assert isinstance(
        read_delegation("run_agent", {"name": "researcher", "task": "x" * 16_000}, ROSTER), RunAgentCall
    )


def test_broken_json_is_answered_with_advice() -> None:
    assert "JSON" in refused("run_agent", "{")


PEERS = (
    RosterEntry(name="fixer", description="Fixes.", agent="desk/fixer", scope="desk"),
    RosterEntry(name="Refund Specialist", scope="desk"),
)


def test_a_member_may_send_to_some_and_hand_off_to_others() -> None:
    send, handoff = delegation_tools(Delegation.SEND_MESSAGE, ROSTER, PEERS)
    assert (send.name, handoff.name) == ("send_message", "handoff_conversation")
    assert handoff.parameters["required"] == ["recipient"]
    assert handoff.parameters["properties"]["recipient"]["enum"] == ["fixer", "Refund Specialist"]  # pyright: ignore
    (only,) = delegation_tools(Delegation.SEND_MESSAGE, (), PEERS)
    assert only.name == "handoff_conversation"


def test_a_handoff_leads_to_the_registered_agent_and_a_message_with_it_is_passed_over() -> None:
    for arguments in ({"recipient": "fixer"}, {"recipient": "Fixer", "message": "It is broken."}):
        call = read_delegation("handoff_conversation", arguments, ROSTER, PEERS)
        assert isinstance(call, HandoffCall)
        assert call.recipient is PEERS[0]
        assert call.recipient.registered == "desk/fixer"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"recipient": "researcher"}, "'researcher'. recipient must be one of:\n- fixer: Fixes."),
        ({}, "'recipient' must be a text"),
        ({"message": "m"}, "'recipient' must be a text"),
        ({"recipient": "fixer", "reason": "r"}, "unknown argument 'reason'"),
    ],
)
def test_a_handoff_that_leads_nowhere_is_answered_with_the_mend(
    arguments: dict[str, str], answer: str
) -> None:
    call = read_delegation("handoff_conversation", arguments, ROSTER, PEERS)
    assert isinstance(call, RefusedCall)
    assert answer in call.text
