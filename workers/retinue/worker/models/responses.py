"""Responses: building the request and putting the answer together, whole or streamed.

Nothing is stored at the server (`store: false`), so that recovery does not depend on it: the output items go
into the entry as they came, reasoning included and in order, and are sent back like that.
Event names: https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from typing import ClassVar

from retinue.worker.models import body
from retinue.worker.models.base import ModelRequest, ModelResponse, ModelUsage
from retinue.worker.models.calls import unique_call_ids, wire_arguments
from retinue.worker.models.dialect import Dialect
from retinue.worker.models.entries import assistant_entry, output_text, pending_calls
from retinue.worker.models.errors import reported_error, unusable_answer
from retinue.worker.models.wire import (
    JsonObject,
    as_object,
    count_of,
    dump_json,
    mend_surrogates,
    objects_of,
    text_of,
)

_FINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ResponsesExchange:
    """One request and the answer to it, fed piece by piece."""

    path: ClassVar[str] = "/responses"

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._provider = request.provider
        self._items: list[JsonObject] = []
        self._answer: JsonObject | None = None

    @property
    def ended(self) -> bool:
        """Whether the final event came."""
        return self._answer is not None

    def body(self, dialect: Dialect) -> bytes:
        """The request as it is sent."""
        request = self._request
        head: JsonObject = {"model": request.model}
        if request.system:
            head["instructions"] = request.system
        if request.tools:
            head["tools"] = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                    "strict": False,  # the default here is true, and refuses schemas with optional fields
                }
                for t in request.tools
            ]
        head["store"] = False
        if dialect.encrypted_reasoning:
            head["include"] = ["reasoning.encrypted_content"]
        head["stream"] = self._provider.stream
        return body.build(request, head, "max_output_tokens", "input", request.entries)

    def feed(self, event: JsonObject) -> str:
        """Take one event of a stream; returns the text that it adds.

        Raises:
            ModelError: The event reports an error.
        """
        kind = event.get("type")
        if kind == "response.output_text.delta":
            return text_of(event.get("delta"))
        if kind == "response.output_item.done":
            item = as_object(event.get("item"))
            if item is not None:
                self._items.append(item)
        elif kind in _FINAL:
            self._take_answer(as_object(event.get("response")) or {})
        elif kind == "error" or (kind is None and event.get("error")):
            # Flat by the documentation, nested by some servers.
            raise reported_error(self._provider, as_object(event.get("error")) or {**event, "type": None})
        return ""

    def whole(self, answer: JsonObject) -> str:
        """Take an answer that came in one piece; returns its text.

        Raises:
            ModelError: The answer reports an error, or holds none.
        """
        if not isinstance(answer.get("output"), list) and not answer.get("error"):
            raise unusable_answer(self._provider, "sent an answer without output")
        self._take_answer(answer)
        return output_text(self._items)

    def finish(self, *, marked_end: bool) -> ModelResponse:
        """The answer, after its last piece.

        Args:
            marked_end: Not needed here, the final event or the whole answer marks the end itself.

        Raises:
            ModelError: The stream was cut.
        """
        del marked_end
        if self._answer is None:
            raise unusable_answer(self._provider, "cut its stream")
        # An answer cut while reasoning ends with it, and the API refuses reasoning that nothing follows.
        while self._items and self._items[-1].get("type") == "reasoning":
            self._items.pop()
        self._mend_calls()
        entry = ",".join(dump_json(item) for item in self._items)
        calls = pending_calls("responses", [entry])
        reason = self._incomplete_reason()
        refusal = _refusal(self._items) or ("content_filter" if reason == "content_filter" else "")
        return ModelResponse(
            text=output_text(self._items),
            tool_calls=calls,
            entry=entry or assistant_entry("responses", ""),
            usage=_usage(self._answer),
            finish_reason=reason or ("tool_calls" if calls else "stop"),
            refusal=refusal or None,
        )

    def _take_answer(self, answer: JsonObject) -> None:
        error = answer.get("error")
        if error or answer.get("status") in ("failed", "cancelled"):
            raise reported_error(self._provider, as_object(error) or {"message": error})
        self._answer = answer
        # The final event repeats the items; some servers leave its list empty.
        self._items = objects_of(answer.get("output")) or self._items

    def _incomplete_reason(self) -> str:
        if self._answer is None or self._answer.get("status") != "incomplete":
            return ""
        reason = text_of((as_object(self._answer.get("incomplete_details")) or {}).get("reason"))
        return "length" if reason in ("", "max_output_tokens") else reason

    def _mend_calls(self) -> None:
        calls = [item for item in self._items if item.get("type") == "function_call"]
        ids = unique_call_ids([text_of(call.get("call_id")) for call in calls], len(self._request.entries))
        for call, call_id in zip(calls, ids, strict=True):
            arguments = call.get("arguments")
            raw = dump_json(arguments) if isinstance(arguments, dict) else text_of(arguments)
            # Equal unless the model or the server erred: items go back as they came.
            call.update(call_id=call_id, arguments=wire_arguments(raw))


def _refusal(items: list[JsonObject]) -> str:
    parts = [part for item in items for part in objects_of(item.get("content"))]
    return mend_surrogates(
        "".join(text_of(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    )


def _usage(answer: JsonObject) -> ModelUsage | None:
    usage = as_object(answer.get("usage"))
    if usage is None:
        return None
    read = as_object(usage.get("input_tokens_details")) or {}
    written = as_object(usage.get("output_tokens_details")) or {}
    return ModelUsage(
        input_tokens=count_of(usage.get("input_tokens")),
        output_tokens=count_of(usage.get("output_tokens")),
        cached_tokens=count_of(read.get("cached_tokens")),
        reasoning_tokens=count_of(written.get("reasoning_tokens")),
    )
