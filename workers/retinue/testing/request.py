"""One view of a model request, whichever of the two wire formats it arrived in.

Scripts and conditions read this view only, so a test says the same thing for chat completions and
for responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

JsonObject = dict[str, Any]


class Api(StrEnum):
    """The wire format of a request."""

    CHAT_COMPLETIONS = "chat_completions"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class Message:
    """The text that one participant put into the history; an assistant's turn counts once."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that the history says the assistant made; `turn` counts from 0."""

    call_id: str
    tool: str
    turn: int


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered. `tool` is "" when the history holds no call of that id."""

    call_id: str
    tool: str
    text: str
    turn: int


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """A model request as scripts see it.

    Attributes:
        turn: assistant turns already in the history, so 0 for the first request of a run.
        turn_since_user: the same, counted after the last user message.
        results: every tool result of the history, in its order.
        tools: names of the tools that the request offers.
        body: the parsed JSON body, untouched.
        headers: names in lower case; kept out of the repr because they hold the key.
    """

    api: Api
    model: str
    system: str
    messages: tuple[Message, ...]
    calls: tuple[AskedCall, ...]
    results: tuple[ToolResult, ...]
    tools: tuple[str, ...]
    stream: bool
    turn: int
    turn_since_user: int
    body: JsonObject = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, default_factory=dict[str, str])

    @property
    def last_user(self) -> str:
        """The text of the last user message, or ""."""
        return next((message.text for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def last_results(self) -> tuple[ToolResult, ...]:
        """The results of the calls that the latest assistant turn made."""
        return tuple(result for result in self.results if result.turn == self.turn - 1)

    def results_of(self, tool: str) -> tuple[ToolResult, ...]:
        """Every result of the named tool, in the history's order."""
        return tuple(result for result in self.results if result.tool == tool)

    def input_chars(self) -> int:
        """Length in characters of all texts in the history."""
        texts = [self.system, *(m.text for m in self.messages), *(r.text for r in self.results)]
        return sum(map(len, texts))


def read_request(api: Api, body: JsonObject, headers: Mapping[str, str]) -> ScriptedRequest:
    """Read a parsed body.

    Raises:
        ValueError: the body lacks a field without which the API itself would refuse it.
    """
    if not isinstance(cast(object, body), dict):
        raise ValueError("the body must be a JSON object")
    if not isinstance(body.get("model"), str):
        raise ValueError("you must provide a model parameter")
    history = _History()
    if api is Api.CHAT_COMPLETIONS:
        _read_chat(body, history)
    else:
        _read_responses(body, history)
    return ScriptedRequest(
        api=api,
        model=body["model"],
        system="\n".join(history.system),
        messages=tuple(history.messages),
        calls=tuple(history.calls.values()),
        results=tuple(history.results),
        tools=tuple(_tool_names(body.get("tools"))),
        stream=bool(body.get("stream")),
        turn=history.turn,
        turn_since_user=history.turn - history.turn_at_user,
        body=body,
        headers=headers,
    )


class _History:
    """Collects a history while it is read from the front."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self.calls: dict[str, AskedCall] = {}
        self.results: list[ToolResult] = []
        self.turn = 0
        self.turn_at_user = 0

    def say(self, role: str, text: str) -> None:
        if role in ("system", "developer"):
            self.system.append(text)
        elif role == "user":
            self.messages.append(Message("user", text))
            self.turn_at_user = self.turn
        else:
            self.messages.append(Message("assistant", text))

    def call(self, call_id: str, tool: str, turn: int) -> None:
        self.calls[call_id] = AskedCall(call_id, tool, turn)

    def answer(self, call_id: str, text: str) -> None:
        asked = self.calls.get(call_id)
        tool, turn = (asked.tool, asked.turn) if asked else ("", self.turn - 1)
        self.results.append(ToolResult(call_id, tool, text, turn))


def _read_chat(body: JsonObject, history: _History) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("'messages' must be a non-empty array")
    for message in cast(list[JsonObject], messages):
        role = message.get("role")
        if role == "tool":
            history.answer(str(message.get("tool_call_id")), _text(message.get("content")))
            continue
        history.say(str(role), _text(message.get("content")))
        if role == "assistant":
            for call in cast(list[JsonObject], message.get("tool_calls") or []):
                history.call(str(call["id"]), str(call["function"]["name"]), history.turn)
            history.turn += 1


def _read_responses(body: JsonObject, history: _History) -> None:
    if body.get("instructions"):
        history.system.append(str(body["instructions"]))
    given = body.get("input")
    if isinstance(given, str):
        history.say("user", given)
        return
    if not isinstance(given, list) or not given:
        raise ValueError("'input' must be a string or a non-empty array")
    # Reasoning, text and calls of one turn are separate items in a row: a turn ends where
    # something that is not the assistant's begins.
    in_turn = False
    for item in cast(list[JsonObject], given):
        kind = item.get("type", "message")
        own = kind in ("reasoning", "function_call") or item.get("role") == "assistant"
        if own and not in_turn:
            history.turn += 1
        in_turn = own
        if kind == "function_call":
            history.call(str(item.get("call_id")), str(item.get("name")), history.turn - 1)
        elif kind == "function_call_output":
            history.answer(str(item.get("call_id")), _text(item.get("output")))
        elif kind == "message":
            history.say(str(item.get("role")), _text(item.get("content")))


def _text(content: object) -> str:
    """The text of a content field: a string, or parts that hold one each."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in cast(list[JsonObject], content))
    return ""


def _tool_names(tools: object) -> list[str]:
    """Chat nests a tool's name under `function`, responses has it flat."""
    if not isinstance(tools, list):
        return []
    named = [cast(JsonObject, tool.get("function", tool)) for tool in cast(list[JsonObject], tools)]
    return [str(tool["name"]) for tool in named if "name" in tool]
