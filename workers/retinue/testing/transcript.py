"""Finds what the real API would refuse in a history: calls without results, results without calls."""

from typing import Any, cast

from retinue.testing.request import Api, ScriptedRequest

JsonObject = dict[str, Any]


def find_fault(request: ScriptedRequest) -> str | None:
    """The API's complaint about the history, or None if it is well formed."""
    if request.api is Api.CHAT_COMPLETIONS:
        return _chat(cast(list[JsonObject], request.body["messages"]))
    given = request.body["input"]
    return None if isinstance(given, str) else _responses(cast(list[JsonObject], given))


def _chat(messages: list[JsonObject]) -> str | None:
    """In chat, the results of a turn follow it directly, each exactly once."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            break
        open_calls = [call["id"] for call in message.get("tool_calls") or []]
    if open_calls:
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(open_calls)
        )
    return None


def _responses(items: list[JsonObject]) -> str | None:
    """In responses, a result stands anywhere after its call; a reasoning item before its turn's output."""
    asked: list[str] = []
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            asked.append(item["call_id"])
        elif kind == "function_call_output":
            if item.get("call_id") not in asked:
                return f"No tool call found for function call output with call_id {item.get('call_id')}."
            asked.remove(item["call_id"])
        elif kind == "reasoning" and not _followed(items, position):
            named = f"Item '{item.get('id')}' of type 'reasoning'"
            return f"{named} was provided without its required following item."
    return f"No tool output found for function call {asked[0]}." if asked else None


def _followed(items: list[JsonObject], position: int) -> bool:
    after = items[position + 1] if position + 1 < len(items) else {}
    return after.get("type") in ("function_call", "reasoning") or after.get("role") == "assistant"
