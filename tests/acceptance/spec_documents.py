"""Agent Spec documents as workers load them, from their working directory, with the tools they name."""

from __future__ import annotations

from retinue.agents import load_agent_spec, tool


@tool(name="Check refund eligibility", read_only=True)
def check_refund_eligibility(order_id: str, customer_id: str) -> dict[str, bool | float | str]:
    """Whether an order may be refunded."""
    return {"eligible": order_id == "7" and customer_id == "c-42", "max_refundable_amount": 50.0}


@tool(name="Process refund")
def process_refund(order_id: str, amount: float, reason: str) -> dict[str, str | bool]:
    """Refund an order."""
    return {"success": True, "refund_id": f"R-{order_id}-{amount}"}


@tool(name="Record survey response")
def record_survey_response(
    customer_id: str, satisfaction_score: int | None = None, comments: str | None = None
) -> dict[str, bool | str]:
    """Record what a customer answered."""
    return {"success": True, "recorded": f"{customer_id}: {satisfaction_score}"}


@tool(read_only=True)
def get_synonyms(word: str) -> list[str]:
    """The synonyms of a word."""
    return [f"{word} (synonym)"]


@tool(read_only=True)
def pretty_formatting(paragraph: str) -> str:
    """A paragraph with its blanks in order."""
    return " ".join(paragraph.split())


group = load_agent_spec("howto_managerworkers.yaml")
writer = load_agent_spec("howto_agents.yaml", name="writer")
