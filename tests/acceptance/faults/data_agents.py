"""An agent whose tools take and return whatever data they are asked for."""

from __future__ import annotations

from typing import Any

from retinue.agents import Agent, ToolContext, tool

MEBIBYTE = 1024 * 1024
LEVELS = 100_000


@tool(toolset="data", read_only=True)
def give(kind: str, ctx: ToolContext) -> Any:
    """Return data of a kind."""
    match kind:
        case "nothing":
            return ""
        case "nul":
            return "a\0b"
        case "surrogate":
            return "a\ud800b"
        case "surrogate in a list":
            return ["a\ud800b"]
        case "large":
            return "x" * (50 * MEBIBYTE)
        case "large bytes":
            return b"x" * (50 * MEBIBYTE)
        case "deep":
            return nested(LEVELS)
        case "wide":
            return list(range(5_000_000))
        case "circular":
            endless: list[Any] = []
            endless.append(endless)
            return endless
        case "progress":
            for n in range(100_000):
                ctx.progress(f"{n} " + "x" * 100)
            ctx.progress("x" * MEBIBYTE)
            return "reported"
        case "fault":
            raise ValueError("x" * (50 * MEBIBYTE))
        case _:
            raise ValueError(kind)


@tool(toolset="data", read_only=True)
def take(data: dict[str, Any]) -> str:
    """Take data."""
    return f"took {len(data)}"


@tool(toolset="data", requires_confirmation=True)
def ask(data: dict[str, Any]) -> str:
    """Take data if a human says so."""
    return f"took {len(data)}"


def nested(levels: int) -> Any:
    """Lists within lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


swallower = Agent(
    name="swallower", instructions="You are swallower.", model="gpt-5-mini", tools=[give, take, ask]
)
