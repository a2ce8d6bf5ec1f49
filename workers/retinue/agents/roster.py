"""The tools with which a model delegates, and what its calls of them mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from retinue.contract import GOAL_MAX_CHARS, canonical_json

from .api_name import loose
from .arguments import ToolArgumentError, parse_arguments
from .entry import Delegation, RosterEntry

RUN_AGENT: Final = "run_agent"
LIST_AGENTS: Final = "list_agents"
SEND_MESSAGE: Final = "send_message"


@dataclass(frozen=True, slots=True)
class DelegationTool:
    """A built-in tool as it is offered to a model."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RunAgentCall:
    """Launch a child and answer the call with its result."""

    agent: str
    task: str


@dataclass(frozen=True, slots=True)
class SendMessageCall:
    """Write to the thread with a worker of the group, and answer the call with its reply."""

    recipient: str
    message: str


@dataclass(frozen=True, slots=True)
class ListAgentsCall:
    """Answered at once, with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The call's arguments cannot be used; the text, written for the model, is the call's result."""

    text: str


DelegationCall = RunAgentCall | SendMessageCall | ListAgentsCall | RefusedCall


def delegation_tools(delegation: Delegation, roster: Sequence[RosterEntry]) -> tuple[DelegationTool, ...]:
    """The built-in tools of an agent that may delegate to this roster; none for an empty one."""
    if not roster or delegation is Delegation.NONE:
        return ()
    names = [item.name for item in roster]
    lines = "\n".join(_line(item) for item in roster)
    if delegation is Delegation.SEND_MESSAGE:
        return (
            DelegationTool(
                SEND_MESSAGE,
                "Send a message to one of your workers and get its answer. It knows only what you and it "
                f"wrote to each other before. Workers:\n{lines}",
                _schema("recipient", names, "message", "What the worker needs to know and to do."),
            ),
        )
    return (
        DelegationTool(
            RUN_AGENT,
            "Delegate a task to another agent and get its result. It sees only the task: put everything that "
            f"it needs into it. Agents:\n{lines}",
            _schema("name", names, "task", "The whole task, with all that the agent needs to know."),
        ),
        DelegationTool(
            LIST_AGENTS,
            "List the agents that tasks can be delegated to.",
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
    )


def read_delegation(
    tool: str, arguments: str | bytes | Mapping[str, object] | None, roster: Sequence[RosterEntry]
) -> DelegationCall:
    """What a model's call of a built-in tool asks for.

    Args:
        tool: ``run_agent``, ``list_agents`` or ``send_message``.
        arguments: as the API hands them over.
        roster: whom the model may delegate to.
    """
    try:
        values = parse_arguments(arguments)
    except ToolArgumentError as error:
        return RefusedCall(str(error))
    if tool == LIST_AGENTS:
        unknown = _unknown(values, ())
        return RefusedCall(unknown) if unknown else ListAgentsCall(roster_text(roster))
    who, what = ("name", "task") if tool == RUN_AGENT else ("recipient", "message")
    fault = _unknown(values, (who, what)) or _missing(values, (who, what))
    if fault:
        return RefusedCall(fault)
    name, text = str(values[who]), str(values[what])
    found = _find(name, roster)
    if found is None:
        return RefusedCall(f"No agent is named {name[:80]!r}. {who} must be one of:\n{_lines(roster)}")
    if len(text) > GOAL_MAX_CHARS:
        return RefusedCall(
            f"{what} has {len(text)} characters; at most {GOAL_MAX_CHARS} are allowed. Shorten it."
        )
    return RunAgentCall(found, text) if tool == RUN_AGENT else SendMessageCall(found, text)


def roster_text(roster: Sequence[RosterEntry]) -> str:
    """The roster as JSON, for ``list_agents``."""
    return canonical_json([item.model_dump(exclude_none=True) for item in roster])


def _line(item: RosterEntry) -> str:
    description = f": {item.description}" if item.description else ""
    return f"- {item.name}{description}" + (f" ({item.when_to_use})" if item.when_to_use else "")


def _lines(roster: Sequence[RosterEntry]) -> str:
    return "\n".join(_line(item) for item in roster)


def _schema(who: str, names: list[str], what: str, description: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": {
            who: {"type": "string", "enum": list[JsonValue](names)},
            what: {"type": "string", "description": description},
        },
        "required": [who, what],
        "additionalProperties": False,
    }


def _unknown(values: Mapping[str, object], allowed: tuple[str, ...]) -> str | None:
    # Models put the real instructions under an invented key: dropping it would lose them silently.
    unknown = [name for name in values if name not in allowed]
    if not unknown:
        return None
    rule = f"Allowed: {', '.join(allowed)}." if allowed else "This tool takes no arguments."
    return f"The call was not run: unknown argument {', '.join(map(repr, unknown[:8]))}. {rule}"


def _missing(values: Mapping[str, object], needed: tuple[str, ...]) -> str | None:
    for name in needed:
        value = values.get(name)
        if not isinstance(value, str) or not value.strip():
            return f"The call was not run: {name!r} must be a text that is not blank."
    return None


def _find(name: str, roster: Sequence[RosterEntry]) -> str | None:
    if any(item.name == name for item in roster):
        return name
    similar = [item.name for item in roster if loose(item.name) == loose(name)]
    return similar[0] if len(similar) == 1 else None
