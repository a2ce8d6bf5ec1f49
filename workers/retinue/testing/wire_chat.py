"""A turn as /v1/chat/completions sends it: one JSON object, or the events of a stream."""

from collections.abc import Iterator
from typing import Any

from retinue.testing.reply import ReplyFacts, pieces
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Turn

JsonObject = dict[str, Any]
# A fixed time: the same request must get the same bytes.
_CREATED = 1_700_000_000


def completion(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> JsonObject:
    """The body of a reply that is not streamed."""
    message: JsonObject = {
        "role": "assistant",
        "content": turn.text if turn.text or not (turn.calls or turn.refusal) else None,
        "refusal": turn.refusal,
    }
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in facts.calls
        ]
    body = _envelope("chat.completion", request, facts)
    body["choices"] = [
        {"index": 0, "message": message, "logprobs": None, "finish_reason": facts.finish_reason}
    ]
    if not turn.omit_usage:
        body["usage"] = _usage(facts)
    return body


def chunks(turn: Turn, request: ScriptedRequest, facts: ReplyFacts) -> Iterator[JsonObject]:
    """The events of a streamed reply, without the closing `[DONE]`."""
    options = request.body.get("stream_options") or {}
    with_usage = bool(options.get("include_usage")) and not turn.omit_usage

    def chunk(delta: JsonObject | None, finish_reason: str | None = None) -> JsonObject:
        body = _envelope("chat.completion.chunk", request, facts)
        choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        body["choices"] = [] if delta is None else [choice]
        if with_usage:
            body["usage"] = _usage(facts) if delta is None else None
        return body

    yield chunk({"role": "assistant", "content": None if turn.calls or turn.refusal else ""})
    for piece in pieces(turn.text, turn.chunk_chars):
        yield chunk({"content": piece})
    for piece in pieces(turn.refusal or "", turn.chunk_chars):
        yield chunk({"refusal": piece})
    for index, call in enumerate(facts.calls):
        head = {"name": call.tool, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": head}]})
        for piece in pieces(call.arguments, turn.chunk_chars):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, facts.finish_reason)
    if with_usage:
        yield chunk(None)


def _envelope(kind: str, request: ScriptedRequest, facts: ReplyFacts) -> JsonObject:
    return {"id": f"chatcmpl-{facts.id}", "object": kind, "created": _CREATED, "model": request.model}


def _usage(facts: ReplyFacts) -> JsonObject:
    return {
        "prompt_tokens": facts.input_tokens,
        "completion_tokens": facts.output_tokens,
        "total_tokens": facts.input_tokens + facts.output_tokens,
        "prompt_tokens_details": {"cached_tokens": facts.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": facts.reasoning_tokens},
    }
