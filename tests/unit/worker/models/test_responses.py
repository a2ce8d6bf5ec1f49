"""Answers of the responses API: items go back as they came."""

import json
from typing import Any

import pytest

from retinue.contract import ErrorClassification
from retinue.worker.models import (
    ModelError,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    Provider,
    ToolCall,
    pending_calls,
)
from retinue.worker.models.responses import ResponsesExchange

PROVIDER = Provider(name="p", base_url="http://localhost/v1", api="responses")
REQUEST = ModelRequest(provider=PROVIDER, model="m", entries=["{}"] * 3)

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed", "status": None}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hëllo", "annotations": [], "logprobs": []}],
}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "call_1",
    "name": "search",
    "arguments": '{ "q": 1}',
    "status": "completed",
}
USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
}


def answer(*items: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"status": status, "output": list(items), "error": None, "usage": USAGE, **fields}


def whole(body: dict[str, Any]) -> ModelResponse:
    exchange = ResponsesExchange(REQUEST)
    exchange.whole(body)
    return exchange.finish(marked_end=True)


def stream(*events: dict[str, Any]) -> ModelResponse:
    exchange = ResponsesExchange(REQUEST)
    for event in events:
        exchange.feed(event)
    return exchange.finish(marked_end=False)


def items_of(response: ModelResponse) -> list[dict[str, Any]]:
    return json.loads(f"[{response.entry}]")


def test_items_are_stored_unchanged_and_in_order():
    response = whole(answer(REASONING, MESSAGE, CALL))
    assert items_of(response) == [REASONING, MESSAGE, CALL]
    assert response.text == "Hëllo"
    assert response.tool_calls == (ToolCall("call_1", "search", '{ "q": 1}'),)
    assert response.finish_reason == "tool_calls"
    assert response.usage == ModelUsage(10, 5, cached_tokens=4, reasoning_tokens=3)


def test_a_stream_gives_the_same_as_its_final_answer_and_hands_over_text():
    exchange = ResponsesExchange(REQUEST)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": answer(status="in_progress")},
        {"type": "response.output_text.delta", "delta": "Hë"},
        {"type": "response.output_text.delta", "delta": "llo"},
        {"type": "response.output_item.done", "item": MESSAGE},
        {"type": "response.completed", "response": answer(MESSAGE)},
    ]
    assert [exchange.feed(event) for event in events] == ["", "Hë", "llo", "", ""]
    assert exchange.ended
    assert exchange.finish(marked_end=False) == whole(answer(MESSAGE))


def test_items_come_from_their_own_events_if_the_final_one_has_none():
    response = stream(
        {"type": "response.output_item.done", "item": REASONING},
        {"type": "response.output_item.done", "item": CALL},
        {"type": "response.completed", "response": answer()},
    )
    assert items_of(response) == [REASONING, CALL]


def test_repeated_and_missing_ids_survive_and_read_the_same_after_a_crash():
    broken = [{**CALL, "arguments": "{broken"}, {**CALL, "arguments": ""}, {**CALL, "call_id": None}]
    response = whole(answer(*broken))
    assert [c.arguments for c in response.tool_calls] == ["{broken", "{}", '{ "q": 1}']
    assert len({c.call_id for c in response.tool_calls}) == 3
    assert pending_calls("responses", [response.entry]) == response.tool_calls


def test_a_refusal_part_is_a_refusal():
    refused = {**MESSAGE, "content": [{"type": "refusal", "refusal": "No."}]}
    response = whole(answer(refused))
    assert (response.text, response.refusal) == ("", "No.")


@pytest.mark.parametrize(
    ("reason", "finish_reason", "refusal"),
    [("max_output_tokens", "length", None), ("content_filter", "content_filter", "content_filter")],
)
def test_an_incomplete_answer_says_why(reason: str, finish_reason: str, refusal: str | None):
    response = stream(
        {
            "type": "response.incomplete",
            "response": answer(MESSAGE, status="incomplete", incomplete_details={"reason": reason}),
        }
    )
    assert (response.text, response.finish_reason, response.refusal) == ("Hëllo", finish_reason, refusal)


def test_an_answer_without_items_still_makes_an_entry():
    response = whole(answer(usage=None))
    assert items_of(response) == [{"type": "message", "role": "assistant", "content": ""}]
    assert response.usage is None


def test_reasoning_that_nothing_follows_is_not_stored():
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    response = whole(answer(REASONING, MESSAGE, REASONING, **cut))
    assert items_of(response) == [REASONING, MESSAGE]


def test_a_stream_without_its_final_event_was_cut():
    with pytest.raises(ModelError) as caught:
        stream({"type": "response.output_item.done", "item": MESSAGE})
    assert caught.value.classification is ErrorClassification.MODEL_UNAVAILABLE
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("event", "classification"),
    [
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "m"},
            ErrorClassification.MODEL_RATE_LIMITED,
        ),
        ({"type": "error", "code": None, "message": "m"}, ErrorClassification.MODEL_UNAVAILABLE),
        ({"type": "error", "error": {"code": "invalid_prompt"}}, ErrorClassification.CONTENT_REFUSED),
        (
            {"type": "response.failed", "response": answer(status="failed", error={"code": "server_error"})},
            ErrorClassification.MODEL_UNAVAILABLE,
        ),
        (
            {"type": "response.failed", "response": answer(status="failed")},
            ErrorClassification.MODEL_UNAVAILABLE,
        ),
        ({"error": {"code": 400, "message": "m"}}, ErrorClassification.MODEL_REJECTED),
    ],
)
def test_an_error_inside_a_stream_is_raised(event: dict[str, Any], classification: ErrorClassification):
    with pytest.raises(ModelError) as caught:
        stream(event)
    assert caught.value.classification is classification


@pytest.mark.parametrize("body", [{}, {"output": None}, {"choices": []}])
def test_an_answer_without_output_is_worth_another_try(body: dict[str, Any]):
    with pytest.raises(ModelError) as caught:
        whole(body)
    assert caught.value.retryable
