"""A turn as /v1/responses sends it: one response object, or the events of a stream."""

from collections.abc import Iterator
from typing import Any

from retinue.testing.faults import StreamError, StreamErrorForm
from retinue.testing.reply import ReplyFacts, WireCall, pieces
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Turn

JsonObject = dict[str, Any]
# A fixed time: the same request must get the same bytes.
_CREATED = 1_700_000_000
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> JsonObject:
    """The body of a reply that is not streamed; streams send the same in their last event."""
    body = _shell(request, facts)
    reason = _INCOMPLETE.get(facts.finish_reason)
    body["status"] = "incomplete" if reason else "completed"
    body["incomplete_details"] = {"reason": reason} if reason else None
    body["output"] = _output(turn, request, facts)
    if not turn.omit_usage:
        body["usage"] = {
            "input_tokens": facts.input_tokens,
            "input_tokens_details": {"cached_tokens": facts.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": facts.output_tokens,
            "output_tokens_details": {"reasoning_tokens": facts.reasoning_tokens},
            "total_tokens": facts.input_tokens + facts.output_tokens,
        }
    return body


def events(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> Iterator[JsonObject]:
    """The events of a streamed reply, numbered from 0."""
    for number, event in enumerate(_unnumbered(turn, request, facts)):
        event["sequence_number"] = number
        yield event


def error_event(error: StreamError, request: ScriptedRequest, facts: ReplyFacts) -> JsonObject:
    """The event that ends a failing stream, without its number."""
    said: JsonObject = {"code": error.code, "message": error.message}
    match error.form:
        case StreamErrorForm.EVENT:
            return {"type": "error", **said, "param": None}
        case StreamErrorForm.NESTED:
            return {"type": "error", "error": {"type": "server_error", **said, "param": None}}
        case StreamErrorForm.FAILED:
            shell = _shell(request, facts) | {"status": "failed", "error": said}
            return {"type": "response.failed", "response": shell}


def _unnumbered(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> Iterator[JsonObject]:
    yield {"type": "response.created", "response": _shell(request, facts)}
    yield {"type": "response.in_progress", "response": _shell(request, facts)}
    whole = response(turn, request, facts)
    for index, item in enumerate(whole["output"]):
        begun = item if item["type"] == "reasoning" else item | _EMPTIED[item["type"]]
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        if item["type"] == "message":
            yield from _text_events(turn, item, index)
        elif item["type"] == "function_call":
            yield from _argument_events(turn, item, index)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


_EMPTIED: dict[str, JsonObject] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
}


def _text_events(turn: Turn, item: JsonObject, output_index: int) -> Iterator[JsonObject]:
    part = item["content"][0]
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if field == "refusal" else "response.output_text"
    place: JsonObject = {"item_id": item["id"], "output_index": output_index, "content_index": 0}
    extra: JsonObject = {} if field == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": part | {field: ""}}
    for piece in pieces(part[field], turn.chunk_chars):
        yield {"type": f"{kind}.delta", **place, "delta": piece, **extra}
    yield {"type": f"{kind}.done", **place, field: part[field], **extra}
    yield {"type": "response.content_part.done", **place, "part": part}


def _argument_events(turn: Turn, item: JsonObject, output_index: int) -> Iterator[JsonObject]:
    kind = "response.function_call_arguments"
    for piece in pieces(item["arguments"], turn.chunk_chars):
        yield _delta(f"{kind}.delta", item["id"], output_index, piece)
    done = {"item_id": item["id"], "output_index": output_index, "arguments": item["arguments"]}
    yield {"type": f"{kind}.done", "name": item["name"], **done}


def _delta(kind: str, item_id: str, output_index: int, piece: str) -> JsonObject:
    return {"type": kind, "item_id": item_id, "output_index": output_index, "delta": piece}


def _output(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> list[JsonObject]:
    items: list[JsonObject] = []
    if turn.reasoning is not None:
        wanted = "reasoning.encrypted_content" in (request.body.get("include") or [])
        sealed = f"sealed:{turn.reasoning}" if wanted else None
        item: JsonObject = {"id": f"rs_{facts.id}", "type": "reasoning", "summary": []}
        items.append(item | {"encrypted_content": sealed})
    if turn.text or turn.refusal is not None or not turn.calls:
        items.append(_message(turn, facts))
    return items + [_function_call(call, facts, index) for index, call in enumerate(facts.calls)]


def _message(turn: Turn, facts: ReplyFacts) -> JsonObject:
    part: JsonObject = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
    if turn.refusal is not None:
        part = {"type": "refusal", "refusal": turn.refusal}
    status = "incomplete" if facts.finish_reason in _INCOMPLETE else "completed"
    return {
        "id": f"msg_{facts.id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part],
    }


def _function_call(call: WireCall, facts: ReplyFacts, index: int) -> JsonObject:
    return {
        "id": f"fc_{facts.id}{index}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.tool,
        "arguments": call.arguments,
        "status": "completed",
    }


def _shell(request: ScriptedRequest, facts: ReplyFacts) -> JsonObject:
    """The response object before anything was produced."""
    return {
        "id": f"resp_{facts.id}",
        "object": "response",
        "created_at": _CREATED,
        "status": "in_progress",
        "model": request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "usage": None,
    }
