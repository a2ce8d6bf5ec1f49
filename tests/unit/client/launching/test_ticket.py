"""What is stored of a launch and of an end."""

from __future__ import annotations

from retinue.agents.effective.effective import Inheritance
from retinue.agents.effective.grants import Grant
from retinue.client import DeadLetter, ErrorClassification, SubagentLaunchRequest, Webhook
from retinue.client.launching.ticket import FULL_TEXT_MAX_CHARS, Ticket, Verdict, webhook_url_in
from retinue.client.steps.replaying import Replay
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


def test_the_webhook_of_a_stored_ticket_is_found_without_reading_the_rest() -> None:
    url = "https://shop.example/hooks"
    ticket = Ticket(SubagentLaunchRequest(goal="g", webhook=Webhook(url=url)), Role.LEAF)
    assert webhook_url_in(ticket.to_json()) == url
    assert webhook_url_in(Ticket(SubagentLaunchRequest(goal="g"), Role.LEAF).to_json()) is None


def test_a_dead_letter_that_is_replayed_keeps_its_webhook() -> None:
    url = "https://shop.example/hooks"
    request = SubagentLaunchRequest(goal="g", correlation_id="c", webhook=Webhook(url=url))
    letter = DeadLetter(
        run_id="sa-p00-" + "a" * 26,
        session_id="s",
        agent="support",
        error_classification=ErrorClassification.WORKER_LOST,
        losses=3,
        iteration=1,
        created_at=1.0,
        ended_at=2.0,
        root_id="sa-p00-" + "a" * 26,
        parent_id=None,
        launch_json=Ticket(request, Role.LEAF).to_json(),
    )
    assert Replay.of(letter).request.webhook == Webhook(url=url)


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
    webhook = Webhook(url="https://secret.example/")
    request = SubagentLaunchRequest(goal="secret", context="secret", webhook=webhook)
    shown += repr(Ticket(request, Role.LEAF))
    assert "secret" not in shown
