"""The tools of the workers that run groups sent by value; they know no agent of their own."""

from __future__ import annotations

from retinue.agents import tool


@tool(read_only=True)
def fooza(a: int, b: int) -> int:
    """The fooza of two numbers."""
    return 2 * a + 3 * b - 1


@tool(read_only=True)
def bwip(a: int, b: int) -> int:
    """The bwip of two numbers."""
    return a - b + 1


@tool(read_only=True)
def zbuk(a: int, b: int) -> int:
    """The zbuk of two numbers."""
    return a + 2 * b


@tool(read_only=True)
def echo(text: str) -> str:
    """The text."""
    return text


@tool
def fail(text: str) -> str:
    """Raise an error."""
    raise ValueError(f"cannot do {text}")
