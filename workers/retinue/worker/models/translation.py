"""Entries of one model API in the words of the other: members of a group share threads, and not an API."""

from __future__ import annotations

from collections.abc import Sequence

from retinue.worker.models.base import Api
from retinue.worker.models.entries import calls_of, output_text
from retinue.worker.models.wire import JsonObject, dump_json, load_object, objects_of, text_of

# Every message that chat completions stores begins like this, and no item of responses does, but for what
# users say: that reads the same in both.
_MESSAGE = '{"role"'
_USER = ('{"role":"user"', '{"role": "user"')


def translate(api: Api, entries: Sequence[str]) -> list[str]:
    """The entries as that API takes them, one for each.

    Those of its own stay as they are, to the byte. What a model thought is left out of the others.

    Args:
        api: Whose model is to read them.
        entries: A thread, in which either API may have written.
    """
    if api == "responses":
        return [_as_items(entry) if _is_message(entry) else entry for entry in entries]
    return [entry if entry.startswith(_MESSAGE) else _as_message(entry) for entry in entries]


def _is_message(entry: str) -> bool:
    return entry.startswith(_MESSAGE) and not entry.startswith(_USER)


def _as_items(entry: str) -> str:
    message = load_object(entry)
    if message is None:
        return entry
    if message.get("role") == "tool":
        answered = {
            "call_id": text_of(message.get("tool_call_id")),
            "output": text_of(message.get("content")),
        }
        return dump_json({"type": "function_call_output", **answered})
    calls = calls_of("chat_completions", entry)
    items: list[JsonObject] = [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in calls
    ]
    text = text_of(message.get("content"))
    if text or not items:
        items.insert(0, {"type": "message", "role": text_of(message.get("role")), "content": text})
    return ",".join(dump_json(item) for item in items)


def _as_message(entry: str) -> str:
    wrapped = load_object(f'{{"items":[{entry}]}}')
    items = objects_of(wrapped["items"]) if wrapped is not None else []
    first = items[0] if items else {}
    if first.get("type") == "function_call_output":
        call_id, output = text_of(first.get("call_id")), text_of(first.get("output"))
        return dump_json({"role": "tool", "tool_call_id": call_id, "content": output})
    if first.get("role") not in (None, "assistant"):
        return dump_json({"role": first.get("role"), "content": first.get("content")})
    text, calls = output_text(items), calls_of("responses", entry)
    message: JsonObject = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return dump_json(message)
