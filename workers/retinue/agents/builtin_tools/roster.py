"""The tools with which a model delegates, and what its calls of them mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from retinue.agents.registry.entry import Delegation
from retinue.agents.tools.api_name import loose
from retinue.agents.tools.arguments import ToolArgumentError, parse_arguments
from retinue.contract import GOAL_MAX_CHARS, canonical_json

from .roster_entry import RosterEntry

RUN_AGENT: Final = "run_agent"
LIST_AGENTS: Final = "list_agents"
SEND_MESSAGE: Final = "send_message"
HANDOFF: Final = "handoff_conversation"


@dataclass(frozen=True, slots=True)
class DelegationTool:
    """A built-in tool as it is offered to a model."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RunAgentCall:
    """Launch a child and answer the call with its result; in the background, at once with its id."""

    agent: str
    task: str
    background: bool = False


@dataclass(frozen=True, slots=True)
class SendMessageCall:
    """Write to the thread with a member of the group, and answer the call with its reply."""

    recipient: RosterEntry
    message: str


@dataclass(frozen=True, slots=True)
class HandoffCall:
    """Make the recipient the owner of the run's conversation."""

    recipient: RosterEntry


@dataclass(frozen=True, slots=True)
class ListAgentsCall:
    """Answered at once, with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The call's arguments cannot be used; the text, written for the model, is the call's result."""

    text: str


DelegationCall = RunAgentCall | SendMessageCall | HandoffCall | ListAgentsCall | RefusedCall


def delegation_tools(
    delegation: Delegation,
    roster: Sequence[RosterEntry],
    handoffs: Sequence[RosterEntry] = (),
    *,
    background: bool = False,
) -> tuple[DelegationTool, ...]:
    """The built-in tools with which an agent delegates.

    Args:
        delegation: how.
        roster: to whom. Empty = it gets no tool for that.
        handoffs: whom it may hand its conversation over to, likewise.
        background: whether it may go on while they work.
    """
    match delegation:
        case Delegation.NONE:
            return ()
        case Delegation.RUN_AGENT:
            return _run_tools(roster, background=background) if roster else ()
        case Delegation.SEND_MESSAGE:
            send = (_send_tool(roster),) if roster else ()
            return (*send, _handoff_tool(handoffs)) if handoffs else send


def _send_tool(roster: Sequence[RosterEntry]) -> DelegationTool:
    return DelegationTool(
        SEND_MESSAGE,
        "Send a message to another agent of your group and get its answer. It knows only what you and it "
        f"wrote to each other before. Agents:\n{_lines(roster)}",
        _schema(
            recipient=_one_of(roster),
            message={"type": "string", "description": "What the agent needs to know and to do."},
        ),
    )


def _handoff_tool(handoffs: Sequence[RosterEntry]) -> DelegationTool:
    return DelegationTool(
        HANDOFF,
        "Hand the whole conversation over to another agent of your group: it sees all that was said, and "
        "answers from then on in your place. Make this your last call of a turn: later ones are not run. "
        f"Agents:\n{_lines(handoffs)}",
        _schema(recipient=_one_of(handoffs)),
    )


def _run_tools(roster: Sequence[RosterEntry], *, background: bool) -> tuple[DelegationTool, ...]:
    parameters = _schema(
        name=_one_of(roster),
        task={"type": "string", "description": "The whole task, with all that the agent needs to know."},
    )
    if background:
        cast("dict[str, JsonValue]", parameters["properties"])["background"] = {
            "type": "boolean",
            "description": "true: answer at once with the agent's id, and let it work while you go on.",
        }
    return (
        DelegationTool(
            RUN_AGENT,
            "Delegate a task to another agent and get its result. It sees only the task: put everything that "
            f"it needs into it. Agents:\n{_lines(roster)}",
            parameters,
        ),
        DelegationTool(
            LIST_AGENTS,
            "List the agents that tasks can be delegated to.",
            {"type": "object", "properties": {}, "additionalProperties": False},
        ),
    )


def read_delegation(
    tool: str,
    arguments: str | bytes | Mapping[str, object] | None,
    roster: Sequence[RosterEntry],
    handoffs: Sequence[RosterEntry] = (),
    *,
    background: bool = False,
) -> DelegationCall:
    """What a model's call of a built-in tool asks for.

    Args:
        tool: ``run_agent``, ``list_agents``, ``send_message`` or ``handoff_conversation``.
        arguments: as the API hands them over.
        roster: whom the model may delegate to.
        handoffs: whom it may hand the conversation over to.
        background: whether it may go on while they work.
    """
    try:
        values = parse_arguments(arguments)
    except ToolArgumentError as error:
        return RefusedCall(str(error))
    if tool == LIST_AGENTS:
        unknown = _unknown(values, ())
        return RefusedCall(unknown) if unknown else ListAgentsCall(roster_text(roster))
    if tool == HANDOFF:
        return _handoff(values, handoffs)
    who, what = ("name", "task") if tool == RUN_AGENT else ("recipient", "message")
    optional = ("background",) if background and tool == RUN_AGENT else ()
    fault = _unknown(values, (who, what, *optional)) or _missing(values, (who, what))
    if fault:
        return RefusedCall(fault)
    apart = values.get("background", False)
    if not isinstance(apart, bool):
        return RefusedCall("The call was not run: 'background' must be true or false.")
    found, text = _find(str(values[who]), roster), str(values[what])
    if found is None:
        return _nobody(str(values[who]), who, roster)
    if len(text) > GOAL_MAX_CHARS:
        return RefusedCall(
            f"{what} has {len(text)} characters; at most {GOAL_MAX_CHARS} are allowed. Shorten it."
        )
    return RunAgentCall(found.registered, text, apart) if tool == RUN_AGENT else SendMessageCall(found, text)


def _handoff(values: Mapping[str, object], handoffs: Sequence[RosterEntry]) -> HandoffCall | RefusedCall:
    # Models add a message; nothing is lost without it, for the recipient reads the conversation.
    fault = _unknown(values, ("recipient",), passed_over=("message",)) or _missing(values, ("recipient",))
    if fault:
        return RefusedCall(fault)
    found = _find(str(values["recipient"]), handoffs)
    return _nobody(str(values["recipient"]), "recipient", handoffs) if found is None else HandoffCall(found)


def _nobody(name: str, who: str, roster: Sequence[RosterEntry]) -> RefusedCall:
    return RefusedCall(f"No agent is named {name[:80]!r}. {who} must be one of:\n{_lines(roster)}")


def roster_text(roster: Sequence[RosterEntry]) -> str:
    """The roster as JSON, for ``list_agents``."""
    return canonical_json([item.model_dump(exclude_none=True) for item in roster])


def _lines(roster: Sequence[RosterEntry]) -> str:
    return "\n".join(item.line for item in roster)


def _one_of(roster: Sequence[RosterEntry]) -> JsonValue:
    return {"type": "string", "enum": [item.name for item in roster]}


def _schema(**properties: JsonValue) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": properties,
        "required": list[JsonValue](properties),
        "additionalProperties": False,
    }


def _unknown(
    values: Mapping[str, object], allowed: tuple[str, ...], *, passed_over: tuple[str, ...] = ()
) -> str | None:
    # Models put the real instructions under an invented key: dropping it would lose them silently.
    unknown = [name for name in values if name not in allowed and name not in passed_over]
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


def _find(name: str, roster: Sequence[RosterEntry]) -> RosterEntry | None:
    exact = next((item for item in roster if item.name == name), None)
    if exact is not None:
        return exact
    similar = [item for item in roster if loose(item.name) == loose(name)]
    return similar[0] if len(similar) == 1 else None
