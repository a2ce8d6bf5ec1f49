"""Entries of a thread: JSON fragments in an API's own format, written once and sent as they are.

Chat completions: an entry is one message. Responses: one or more items joined by commas. So a history is
`",".join(entries)` in either, and its bytes never change, which is what servers cache prompts by.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from retinue.worker.models.base import Api, ToolCall
from retinue.worker.models.calls import raw_arguments
from retinue.worker.models.wire import (
    JsonObject,
    dump_json,
    load_object,
    mend_surrogates,
    objects_of,
    text_of,
)

CUT = (
    "[CUT] This call was not answered: the run that made it ended. It may or may not have taken effect; "
    "check before you repeat it."
)
"""What a later run's model reads of a call that an earlier run left open in their thread."""


def user_entry(api: Api, text: str) -> str:
    """An entry that says `text` as the user."""
    return dump_json(_message(api, "user", text))


def assistant_entry(api: Api, text: str) -> str:
    """An entry that says `text` as the assistant, without tool calls."""
    return dump_json(_message(api, "assistant", text))


def tool_result_head(api: Api, call_id: str) -> str:
    """The start of the entry that answers a call: head + JSON string + `}` is the entry."""
    if api == "responses":
        return f'{{"type":"function_call_output","call_id":{dump_json(call_id)},"output":'
    return f'{{"role":"tool","tool_call_id":{dump_json(call_id)},"content":'


def pending_calls(api: Api, entries: Sequence[str]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant entry that no later entry answers, in the model's order.

    Reads from the end and stops at that entry, so its cost does not grow with the thread.
    """
    answered: list[str] = []
    for entry in reversed(entries):
        items = _items(entry)
        answered += [call_id for item in items if (call_id := _answers(api, item)) is not None]
        if any(_is_assistant(api, item) for item in items):
            calls = [call for item in items for call in _calls(api, item)]
            return tuple(call for call in calls if not _take(answered, call.call_id))
    return ()


def answer_cut_calls(api: Api, entries: Sequence[str]) -> list[str]:
    """The entries, with an answer put in for every call that was open when something else was said.

    A run that is cut leaves its last calls without results, and no API takes a history with such a gap.
    What is put in depends on the entries up to that place alone, so the bytes of a history stay as they are
    when it grows. Calls that are open at the end are left alone: they may still be answered.
    """
    whole: list[str] = []
    left_open: list[ToolCall] = []
    for entry in entries:
        items = _items(entry)
        answered = [call_id for item in items if (call_id := _answers(api, item)) is not None]
        said = any(_is_assistant(api, item) for item in items)
        if said or not answered:
            whole += [f"{tool_result_head(api, call.call_id)}{dump_json(CUT)}}}" for call in left_open]
            left_open = [call for item in items for call in _calls(api, item)] if said else []
        left_open = [call for call in left_open if not _take(answered, call.call_id)]
        whole.append(entry)
    return whole


def last_text(api: Api, entry: str) -> str:
    """The output text of an assistant entry, "" for any other."""
    del api  # A message reads the same in both formats so far.
    return output_text(_items(entry))


def last_said(api: Api, entries: Sequence[str], responses: int) -> str | None:
    """The text of the latest response that has one.

    Args:
        api: Of the entries.
        entries: A thread; it may begin with what earlier runs wrote.
        responses: How many of its last assistant entries to look at.
    """
    texts = (output_text(_items(entry)) for entry in own_responses(api, entries, responses))
    return next(filter(None, texts), None)


def own_responses(api: Api, entries: Sequence[str], responses: int) -> Iterator[str]:
    """The last so many assistant entries, the latest first.

    Args:
        api: Of the entries.
        entries: A thread; it may begin with what earlier runs wrote.
        responses: How many the run has made.
    """
    made_by_model = (
        entry for entry in reversed(entries) if any(_is_assistant(api, item) for item in _items(entry))
    )
    return islice(made_by_model, responses)


def calls_of(api: Api, entry: str) -> tuple[ToolCall, ...]:
    """The calls of an assistant entry, in the model's order."""
    return tuple(call for item in _items(entry) for call in _calls(api, item))


def is_answer(api: Api, entry: str) -> bool:
    """Whether an entry is a whole answer of the model: an assistant's, without calls."""
    items = _items(entry)
    return any(_is_assistant(api, item) for item in items) and not any(_calls(api, item) for item in items)


def output_text(items: Sequence[JsonObject]) -> str:
    """The assistant's text in parsed messages or items; several messages are joined by line breaks."""
    texts: list[str] = []
    for item in items:
        if item.get("role") == "assistant":
            content = item.get("content")
            texts.append(content if isinstance(content, str) else _parts_text(content))
    return mend_surrogates("\n".join(text for text in texts if text))


def _message(api: Api, role: str, text: str) -> JsonObject:
    message: JsonObject = {"role": role, "content": text}
    return {"type": "message", **message} if api == "responses" else message


def _items(entry: str) -> list[JsonObject]:
    # One parse for both formats: a message and a run of items are both the inside of an array.
    wrapped = load_object(f'{{"items":[{entry}]}}')
    return objects_of(wrapped["items"]) if wrapped is not None else []


def _is_assistant(api: Api, item: JsonObject) -> bool:
    if api == "responses":
        # Whatever a model puts out has a type of its own (reasoning, function_call, ...) or this role.
        kind = item.get("type", "message")
        return item.get("role") == "assistant" if kind == "message" else kind != "function_call_output"
    return item.get("role") == "assistant"


def _answers(api: Api, item: JsonObject) -> str | None:
    if api == "responses":
        return text_of(item.get("call_id")) if item.get("type") == "function_call_output" else None
    return text_of(item.get("tool_call_id")) if item.get("role") == "tool" else None


def _calls(api: Api, item: JsonObject) -> list[ToolCall]:
    if api == "responses":
        return [_call(text_of(item.get("call_id")), item)] if item.get("type") == "function_call" else []
    calls: list[ToolCall] = []
    for call in objects_of(item.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            calls.append(_call(text_of(call.get("id")), function))  # pyright: ignore[reportUnknownArgumentType]
    return calls


def _call(call_id: str, function: JsonObject) -> ToolCall:
    return ToolCall(call_id, text_of(function.get("name")), raw_arguments(text_of(function.get("arguments"))))


def _take(answered: list[str], call_id: str) -> bool:
    # Removed when found: two calls under one id need two answers.
    if call_id in answered:
        answered.remove(call_id)
        return True
    return False


def _parts_text(content: object) -> str:
    return "".join(text_of(part.get("text")) for part in objects_of(content) if _is_text(part))


def _is_text(part: JsonObject) -> bool:
    return part.get("type") in ("output_text", "text")
