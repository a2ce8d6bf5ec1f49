"""The functions behind the ServerTools of the real Agent Spec documents, under the names that these give."""

from __future__ import annotations

from retinue.agents import tool


@tool(name="Check refund eligibility", read_only=True)
def check_refund_eligibility(order_id: str, customer_id: str) -> bool:
    """Whether an order may be refunded."""
    return bool(order_id and customer_id)


@tool(name="Process refund")
def process_refund(order_id: str, amount: float, reason: str) -> str:
    """Refund an order."""
    return f"{order_id}: {amount} for {reason}"


@tool(name="Record survey response")
def record_survey_response(
    customer_id: str, satisfaction_score: int | None = None, comments: str | None = None
) -> str:
    """Record what a customer answered."""
    return f"{customer_id}: {satisfaction_score}, {comments}"


@tool(name="Symptoms checker", read_only=True)
def symptoms_checker(symptoms: list[str]) -> str:
    """What the symptoms may be."""
    return ", ".join(symptoms)


@tool(name="Get medication info", read_only=True)
def get_medication_info(drug_name: str) -> str:
    """What is known of a drug."""
    return drug_name


@tool(name="Knowledge tool", read_only=True)
def knowledge_tool(condition: str) -> str:
    """What is known of a condition."""
    return condition


@tool(read_only=True)
def get_synonyms(word: str) -> list[str]:
    """The synonyms of a word."""
    return [word]


@tool(read_only=True)
def pretty_formatting(paragraph: str) -> str:
    """A paragraph with its blanks in order."""
    return " ".join(paragraph.split())


@tool(read_only=True)
def get_weather(location: str) -> str:
    """The weather somewhere."""
    return f"sunny in {location}"


@tool(read_only=True)
def multiplication_tool(a: int, b: int) -> int:
    """A product."""
    return a * b


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """A product."""
    return a * b


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """A sum."""
    return a + b
