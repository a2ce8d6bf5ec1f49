"""A thread's messages as a person reads them: who said what, and which tools were called.

Entries stand in the store in the model API's own format (worker/models/entries.py writes them). What a model
thinks to itself is never among what is shown: only fields that are known to be said are taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from retinue.contract import Event, EventType

TEXT_MAX_CHARS: Final = 16_000
"""Longest text that is shown of a message, or of a call's arguments; what is cut says so."""

CALLS_MAX: Final = 50
"""Most calls of one message that are shown."""

_Object = Mapping[str, Any]
_SAID: Final = frozenset({"text", "input_text", "output_text"})
_ENDINGS: Final = "… [{} more characters]"


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call as the model wrote it. `arguments`: JSON text, as long as it is not cut."""

    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message.

    Args:
        role: user, assistant or tool.
        text: What was said, or what the tool gave back.
        agent: Who said it; None = not an agent, or not known which.
        calls: The tools that it calls.
        left_out: Calls that are not among them.
        call: The name of the tool whose result it is; None = it is none, or not known which.
    """

    role: str
    text: str
    agent: str | None = None
    calls: tuple[ShownCall, ...] = ()
    left_out: int = 0
    call: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "role": self.role,
            "agent": self.agent,
            "text": self.text,
            "calls": [call.to_dict() for call in self.calls],
            "calls_left_out": self.left_out,
            "call": self.call,
        }


class Speakers:
    """Which agent gave which response of a run.

    Args:
        agent: The active one.
        iterations: How many responses of the run are recorded.
        handed_off: Iteration -> who spoke up to it, where the run went from one agent to another.
    """

    def __init__(self, agent: str, iterations: int, handed_off: Mapping[int, str] | None = None) -> None:
        self._agent = agent
        self._iterations = iterations
        self._handed_off = sorted((handed_off or {}).items())

    @classmethod
    def of(cls, run_id: str, agent: str, iterations: int, events: Iterable[Event]) -> Speakers:
        """By a tree's events, which tell of each handoff."""
        said, before = 0, dict[int, str]()
        for event in events:
            if event.run_id != run_id:
                continue
            if event.type is EventType.MODEL_FINISHED:
                said += 1
            elif event.type is EventType.RUN_HANDED_OFF:
                before[said] = str(event.data["from"])
        return cls(agent, iterations, before)

    def of_response(self, after: int) -> str | None:
        """Who gave the response that so many others follow in the thread; None = an earlier run's agent."""
        iteration = self._iterations - after
        if iteration < 1:
            return None
        return next((agent for last, agent in self._handed_off if iteration <= last), self._agent)


def shown_messages(
    entries: Sequence[str], speakers: Speakers, *, after: int = 0
) -> tuple[tuple[ShownMessage, ...], int]:
    """The messages of a part of a thread, and how many responses of models are in it and behind it.

    Args:
        entries: As they stand in the store, in their order.
        speakers: Of the run that writes to the thread.
        after: Responses of models behind these entries.
    """
    parsed = [_items(entry) for entry in entries]
    names = {call_id: name for items in parsed for call_id, name in _call_names(items)}
    shown: list[ShownMessage] = []
    for items in reversed(parsed):
        said = [item for item in items if _is_said(item)]
        if said:
            shown.append(_response(said, speakers.of_response(after)))
            after += 1
        elif not items or _is_thought(items):
            # A response without a word: it counts, and there is nothing to show.
            after += 1 if items else 0
        else:
            shown += [message for item in reversed(items) if (message := _other(item, names)) is not None]
    return tuple(reversed(shown)), after


def _response(items: Sequence[_Object], agent: str | None) -> ShownMessage:
    texts = [_text(item.get("content")) for item in items if item.get("role") == "assistant"]
    refusals = [str(item["refusal"]) for item in items if isinstance(item.get("refusal"), str)]
    calls = [call for item in items for call in _calls(item)]
    return ShownMessage(
        role="assistant",
        text=_cut("\n".join(text for text in (*texts, *refusals) if text)),
        agent=agent,
        calls=tuple(calls[:CALLS_MAX]),
        left_out=max(0, len(calls) - CALLS_MAX),
    )


def _other(item: _Object, names: Mapping[str, str]) -> ShownMessage | None:
    if item.get("type") == "function_call_output":
        return _result(item.get("output"), item.get("call_id"), names)
    match item.get("role"):
        case "tool":
            return _result(item.get("content"), item.get("tool_call_id"), names)
        case "user":
            return ShownMessage(role="user", text=_cut(_text(item.get("content"))))
        case _:
            return None


def _result(content: object, call_id: object, names: Mapping[str, str]) -> ShownMessage:
    return ShownMessage(role="tool", text=_cut(_text(content)), call=names.get(str(call_id)))


def _is_said(item: _Object) -> bool:
    """Whether it is a model's, and for others to see."""
    return item.get("role") == "assistant" or item.get("type") == "function_call"


def _is_thought(items: Sequence[_Object]) -> bool:
    """Whether they are a model's, and nothing but what it thinks to itself or does at its server."""
    return all("role" not in item and item.get("type") != "function_call_output" for item in items)


def _calls(item: _Object) -> Iterator[ShownCall]:
    for _, function in _functions(item):
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        yield ShownCall(str(function.get("name", "")), _cut(text))


def _call_names(items: Sequence[_Object]) -> Iterator[tuple[str, str]]:
    for item in items:
        for call_id, function in _functions(item):
            yield call_id, str(function.get("name", ""))


def _functions(item: _Object) -> Iterator[tuple[str, _Object]]:
    """The calls in a message or item: id, and what holds name and arguments."""
    if item.get("type") == "function_call":
        yield str(item.get("call_id")), item
        return
    for call in _objects(item.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            yield str(call.get("id")), cast("_Object", function)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = [(part.get("type"), part) for part in _objects(content)]
    said = [str(part.get("text", "")) for kind, part in parts if kind in _SAID]
    refused = [str(part.get("refusal", "")) for kind, part in parts if kind == "refusal"]
    return "".join([*said, *refused])


def _cut(text: str) -> str:
    more = len(text) - TEXT_MAX_CHARS
    return text if more <= 0 else text[:TEXT_MAX_CHARS] + _ENDINGS.format(f"{more:,}")


def _items(entry: str) -> list[_Object]:
    # A message and a run of items are both the inside of an array.
    try:
        return _objects(json.loads(f"[{entry}]"))
    except (ValueError, RecursionError):
        return []


def _objects(value: object) -> list[_Object]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("_Object", item) for item in items if isinstance(item, dict)]
