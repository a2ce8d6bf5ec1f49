"""Chat completions: building the request and putting the answer together, whole or streamed.

Usage and stream shapes: https://platform.openai.com/docs/api-reference/chat. Deviations met in the wild are
named where they are handled.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from retinue.worker.models import body
from retinue.worker.models.base import ModelRequest, ModelResponse, ModelUsage
from retinue.worker.models.calls import unique_call_ids, wire_arguments
from retinue.worker.models.dialect import Dialect
from retinue.worker.models.entries import pending_calls
from retinue.worker.models.errors import reported_error, unusable_answer
from retinue.worker.models.wire import (
    JsonObject,
    as_object,
    count_of,
    dump_json,
    load_object,
    mend_surrogates,
    objects_of,
    text_of,
)


@dataclass(slots=True)
class _Call:
    index: object
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    extra: JsonObject | None = None

    @property
    def arguments(self) -> str:
        """All that came so far; put together once, for it may come in a hundred thousand pieces."""
        return "".join(self.pieces)


class ChatExchange:
    """One request and the answer to it, fed piece by piece."""

    path: ClassVar[str] = "/chat/completions"
    ended: ClassVar[bool] = False  # only `[DONE]` or the end of the body ends a stream

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._provider = request.provider
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._usage: ModelUsage | None = None
        self._finish_reason = ""
        self._answered = False

    def body(self, dialect: Dialect) -> bytes:
        """The request as it is sent."""
        request = self._request
        head: JsonObject = {"model": request.model}
        if request.tools:
            head["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in request.tools
            ]
        head["stream"] = self._provider.stream
        # An override may turn streaming off, and OpenAI refuses the options without it.
        if self._provider.overrides.get("stream", self._provider.stream):
            head["stream_options"] = {"include_usage": True}
        system = [dump_json({"role": "system", "content": request.system})] if request.system else []
        return body.build(request, head, dialect.limit_key, "messages", [*system, *request.entries])

    def feed(self, event: JsonObject) -> str:
        """Take one event of a stream; returns the text that it adds.

        Raises:
            ModelError: The event reports an error.
        """
        self._raise_reported(event)
        self._take_usage(event)
        for choice in objects_of(event.get("choices")):
            if choice.get("index") not in (0, None):
                continue
            self._answered = True
            self._finish_reason = text_of(choice.get("finish_reason")) or self._finish_reason
            delta = as_object(choice.get("delta")) or {}
            for call in objects_of(delta.get("tool_calls")):
                self._take_call_delta(call)
            self._refusal.append(text_of(delta.get("refusal")))
            text = _content_text(delta.get("content"))
            self._text.append(text)
            return text
        return ""

    def whole(self, answer: JsonObject) -> str:
        """Take an answer that came in one piece; returns its text.

        Raises:
            ModelError: The answer reports an error, or holds none.
        """
        self._raise_reported(answer)
        choices = objects_of(answer.get("choices"))
        message = as_object(choices[0].get("message")) if choices else None
        if message is None:
            raise unusable_answer(self._provider, "sent an answer without a message")
        self._take_usage(answer)
        self._answered = True
        self._finish_reason = text_of(choices[0].get("finish_reason"))
        for index, call in enumerate(objects_of(message.get("tool_calls"))):
            self._calls.append(_Call(index))
            _add_delta(self._calls[-1], call)
        self._refusal.append(text_of(message.get("refusal")))
        self._text.append(_content_text(message.get("content")))
        return self._text[-1]

    def finish(self, *, marked_end: bool) -> ModelResponse:
        """The answer, after its last piece.

        Args:
            marked_end: Whether the end was marked (`[DONE]`, or an answer in one piece).

        Raises:
            ModelError: The stream was cut, or empty.
        """
        if not self._answered:
            raise unusable_answer(self._provider, "sent an empty answer")
        if not marked_end and not self._finish_reason:
            raise unusable_answer(self._provider, "cut its stream")
        entry = self._entry()
        calls = pending_calls("chat_completions", [entry]) if self._calls else ()
        refusal = mend_surrogates("".join(self._refusal))
        if self._finish_reason == "content_filter":
            refusal = refusal or "content_filter"
        return ModelResponse(
            text=mend_surrogates("".join(self._text)),
            tool_calls=calls,
            entry=entry,
            usage=self._usage,
            # Gemini's server says "stop" where there are calls; some say nothing before [DONE].
            finish_reason="tool_calls"
            if calls and self._finish_reason in ("", "stop")
            else self._finish_reason or "stop",
            refusal=refusal or None,
        )

    def _entry(self) -> str:
        text = "".join(self._text)
        message: JsonObject = {"role": "assistant", "content": text or (None if self._calls else "")}
        if refusal := "".join(self._refusal):
            message["refusal"] = refusal
        if self._calls:
            ids = unique_call_ids([call.call_id for call in self._calls], len(self._request.entries))
            message["tool_calls"] = [
                _stored_call(call_id, call) for call_id, call in zip(ids, self._calls, strict=True)
            ]
        return dump_json(message)

    def _take_call_delta(self, delta: JsonObject) -> None:
        call = self._call_for(delta)
        if call is None:
            call = _Call(delta.get("index"))
            self._calls.append(call)
        _add_delta(call, delta)

    def _call_for(self, delta: JsonObject) -> _Call | None:
        """The call that a delta continues, None if it starts one.

        Gemini's server and some proxies send no index, or 0 for each call; then id and name have to tell.
        """
        index = delta.get("index")
        call = next((c for c in reversed(self._calls) if index is None or c.index == index), None)
        if call is None:
            return None
        call_id = text_of(delta.get("id"))
        if call_id and call.call_id and call_id != call.call_id:
            return None
        name = text_of((as_object(delta.get("function")) or {}).get("name"))
        if index is None and name and (name != call.name or load_object(call.arguments) is not None):
            return None
        return call

    def _take_usage(self, event: JsonObject) -> None:
        usage = as_object(event.get("usage"))
        if usage is None:
            return
        prompt = as_object(usage.get("prompt_tokens_details")) or {}
        completion = as_object(usage.get("completion_tokens_details")) or {}
        self._usage = ModelUsage(
            input_tokens=count_of(usage.get("prompt_tokens")),
            output_tokens=count_of(usage.get("completion_tokens")),
            cached_tokens=count_of(prompt.get("cached_tokens")),
            reasoning_tokens=count_of(completion.get("reasoning_tokens")),
        )

    def _raise_reported(self, event: JsonObject) -> None:
        error = event.get("error")
        if error:
            raise reported_error(self._provider, as_object(error) or {"message": error})
        if event.get("object") == "error":  # vLLM before 0.10
            raise reported_error(self._provider, event)


def _add_delta(call: _Call, delta: JsonObject) -> None:
    function = as_object(delta.get("function")) or {}
    call.call_id = call.call_id or text_of(delta.get("id"))
    call.name = call.name or text_of(function.get("name"))
    # Gemini's thought signatures live here and have to come back with the call.
    call.extra = as_object(delta.get("extra_content")) or call.extra
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # against the API, but some servers parse them
        call.pieces.append(dump_json(arguments))
    else:
        call.pieces.append(text_of(arguments))


def _stored_call(call_id: str, call: _Call) -> JsonObject:
    stored: JsonObject = {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": wire_arguments(call.arguments)},
    }
    return stored if call.extra is None else {**stored, "extra_content": call.extra}


def _content_text(content: object) -> str:
    # Mistral's server sends parts where it reasons.
    if isinstance(content, str):
        return content
    return "".join(text_of(part.get("text")) for part in objects_of(content) if part.get("type") == "text")
