"""The tools with which a model looks after the agents that it has set to work in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from retinue.agents.tools.arguments import ToolArgumentError, parse_arguments
from retinue.contract import REASON_MAX_CHARS, STEER_MAX_CHARS, parse_request_id

from .roster import DelegationTool, RefusedCall

CHECK_AGENT: Final = "check_agent"
WAIT_AGENTS: Final = "wait_agents"
STEER_AGENT: Final = "steer_agent"
CANCEL_AGENT: Final = "cancel_agent"
ANSWER_AGENT: Final = "answer_agent"
BACKGROUND_TOOLS: Final = (CHECK_AGENT, WAIT_AGENTS, STEER_AGENT, CANCEL_AGENT, ANSWER_AGENT)

IDS_MAX_COUNT: Final = 100
"""Agents that one wait may name."""

_ID: Final = "The id that run_agent answered with."


@dataclass(frozen=True, slots=True)
class CheckCall:
    """Say how a child stands, and what it came to if it has ended."""

    child: str


@dataclass(frozen=True, slots=True)
class WaitCall:
    """Wait until children have ended, and say what they came to.

    Args:
        children: which. Empty = all that were started in the background.
        any_of: the first end is enough.
    """

    children: tuple[str, ...]
    any_of: bool


@dataclass(frozen=True, slots=True)
class SteerCall:
    """Send a child a message."""

    child: str
    message: str


@dataclass(frozen=True, slots=True)
class CancelCall:
    """Cancel a child and everything below it."""

    child: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """Answer a child's question.

    Args:
        child: who asks.
        slot: its call.
    """

    child: str
    slot: str
    answer: str


BackgroundCall = CheckCall | WaitCall | SteerCall | CancelCall | AnswerCall | RefusedCall


def background_tools() -> tuple[DelegationTool, ...]:
    """The tools, as they are offered to a model beside a `run_agent` that takes `background`."""
    return (
        DelegationTool(
            CHECK_AGENT,
            "Look at an agent that you started in the background: how it stands, what it asks you, or its "
            "result.",
            _schema({"id": _text(_ID)}, "id"),
        ),
        DelegationTool(
            WAIT_AGENTS,
            "Wait for agents that you started in the background, and get their results. If one of them asks "
            "you something, the wait is over: answer with answer_agent, and wait again.",
            _schema(
                {
                    "ids": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Ids that run_agent answered with. Leave it out for all of them.",
                    },
                    "until": {
                        "type": "string",
                        "enum": ["all", "any"],
                        "description": "all (the default): until each has ended. any: until the first has.",
                    },
                }
            ),
        ),
        DelegationTool(
            STEER_AGENT,
            "Send a message to an agent that you started in the background, for its next step.",
            _schema(
                {"id": _text(_ID), "message": _text("What it needs to know or to do otherwise.")},
                "id",
                "message",
            ),
        ),
        DelegationTool(
            CANCEL_AGENT,
            "Stop an agent that you started in the background, and everything that it has started.",
            _schema({"id": _text(_ID), "reason": _text("Why, for the log.")}, "id"),
        ),
        DelegationTool(
            ANSWER_AGENT,
            "Answer a question of an agent that you started in the background; it waits for that.",
            _schema(
                {
                    "question_id": _text("Of the question, as check_agent and wait_agents tell it."),
                    "answer": _text("All that the agent needs to go on."),
                },
                "question_id",
                "answer",
            ),
        ),
    )


def read_background(tool: str, arguments: str | bytes | Mapping[str, object] | None) -> BackgroundCall:
    """What a model's call of one of these tools asks for.

    Args:
        tool: one of `BACKGROUND_TOOLS`.
        arguments: as the API hands them over.
    """
    try:
        return _READERS[tool](parse_arguments(arguments))
    except ToolArgumentError as error:
        return RefusedCall(f"The call was not run: {error}")


def _check(values: Mapping[str, object]) -> CheckCall:
    _only(values, "id")
    return CheckCall(_required(values, "id"))


def _wait(values: Mapping[str, object]) -> WaitCall:
    _only(values, "ids", "until")
    ids, until = values.get("ids"), values.get("until")
    if not isinstance(ids, list | None):
        raise ToolArgumentError("'ids' must be a list of ids.")
    given = cast("list[object]", ids or [])
    if not all(isinstance(item, str) and item for item in given):
        raise ToolArgumentError("'ids' must be a list of ids, each a text.")
    if len(given) > IDS_MAX_COUNT:
        raise ToolArgumentError(f"'ids' has {len(given)} entries; at most {IDS_MAX_COUNT} are allowed.")
    if until not in (None, "all", "any"):
        raise ToolArgumentError("'until' must be 'all' or 'any'.")
    return WaitCall(tuple(dict.fromkeys(map(str, given))), any_of=until == "any")


def _steer(values: Mapping[str, object]) -> SteerCall:
    _only(values, "id", "message")
    return SteerCall(_required(values, "id"), _required(values, "message", max_chars=STEER_MAX_CHARS))


def _cancel(values: Mapping[str, object]) -> CancelCall:
    _only(values, "id", "reason")
    reason = values.get("reason")
    if not isinstance(reason, str | None):
        raise ToolArgumentError("'reason' must be a text.")
    return CancelCall(_required(values, "id"), (reason or "")[:REASON_MAX_CHARS])


def _answer(values: Mapping[str, object]) -> AnswerCall:
    _only(values, "question_id", "answer")
    found = parse_request_id(_required(values, "question_id"))
    if found is None:
        raise ToolArgumentError("'question_id' must be one that check_agent or wait_agents told.")
    child, slot = found
    return AnswerCall(child, slot, _required(values, "answer", max_chars=STEER_MAX_CHARS))


_READERS: Final[Mapping[str, Callable[[Mapping[str, object]], BackgroundCall]]] = {
    CHECK_AGENT: _check,
    WAIT_AGENTS: _wait,
    STEER_AGENT: _steer,
    CANCEL_AGENT: _cancel,
    ANSWER_AGENT: _answer,
}


def _only(values: Mapping[str, object], *allowed: str) -> None:
    unknown = [name for name in values if name not in allowed]
    if unknown:
        names = ", ".join(map(repr, unknown[:8]))
        raise ToolArgumentError(f"unknown argument {names}. Allowed: {', '.join(allowed)}.")


def _required(values: Mapping[str, object], name: str, *, max_chars: int | None = None) -> str:
    value = values.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolArgumentError(f"{name!r} must be a text that is not blank.")
    if max_chars is not None and len(value) > max_chars:
        raise ToolArgumentError(f"{name!r} has {len(value)} characters; at most {max_chars} are allowed.")
    return value


def _text(description: str) -> JsonValue:
    return {"type": "string", "description": description}


def _schema(properties: dict[str, JsonValue], *required: str) -> dict[str, JsonValue]:
    needed: dict[str, JsonValue] = {"required": list[JsonValue](required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}
