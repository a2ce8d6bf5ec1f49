"""What is stored of a launch and of an end."""

from __future__ import annotations

from retinue.agents.effective import Inheritance
from retinue.agents.grants import Grant
from retinue.client import SubagentLaunchRequest
from retinue.client.ticket import FULL_TEXT_MAX_CHARS, Ticket, Verdict
from retinue.contract import Role


def test_a_ticket_survives_storage() -> None:
    request = SubagentLaunchRequest(goal="Straße", agent="support", metadata={"a": [1]}, timeout_seconds=5)
    inherited = Inheritance(model="m", grant=Grant(toolsets=("handbook",)), toolsets=("handbook",))
    for ticket in (
        Ticket(request, Role.LEAF),
        Ticket(request, Role.ORCHESTRATOR, "openai", "m", inherited),
    ):
        assert Ticket.from_json(ticket.to_json()) == ticket


def test_a_ticket_leaves_out_what_says_nothing() -> None:
    ticket = Ticket(SubagentLaunchRequest(goal="g"), Role.LEAF)
    assert ticket.to_json() == '{"request":{"goal":"g"},"role":"leaf"}'


def test_a_verdict_survives_storage() -> None:
    verdict = Verdict(summary="yes", payload={"a": None}, message="but")
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert Verdict.from_json(None) == Verdict.from_json("{}") == Verdict()


def test_a_summary_without_end_is_cut_before_it_is_stored() -> None:
    stored = Verdict.from_json(Verdict(summary="x" * 1_500_000).to_json())
    assert stored.summary is not None
    assert len(stored.summary) == FULL_TEXT_MAX_CHARS
    assert "1,500,000" in stored.summary[-60:]


def test_no_text_shows_in_a_repr() -> None:
    shown = repr(Verdict(summary="secret", payload="secret", message="secret"))
    shown += repr(Ticket(SubagentLaunchRequest(goal="secret", context="secret"), Role.LEAF))
    assert "secret" not in shown
