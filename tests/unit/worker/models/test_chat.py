"""Answers of chat completions: whole, streamed, and as servers deviate."""

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
from retinue.worker.models.chat import ChatExchange

REQUEST = ModelRequest(
    provider=Provider(name="p", base_url="http://localhost/v1"), model="m", entries=["{}"] * 3
)


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def call(index: int | None, call_id: str | None, name: str | None, arguments: Any = "") -> dict[str, Any]:
    fields = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
    return delta(tool_calls=[{key: value for key, value in fields.items() if value is not None}])


def stream(*events: dict[str, Any], marked_end: bool = True) -> ModelResponse:
    exchange = ChatExchange(REQUEST)
    for event in events:
        exchange.feed(event)
    return exchange.finish(marked_end=marked_end)


def whole(message: dict[str, Any], finish_reason: str | None = "stop", **fields: Any) -> ModelResponse:
    exchange = ChatExchange(REQUEST)
    exchange.whole({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}], **fields})
    return exchange.finish(marked_end=True)


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": None,
}


def test_text_deltas_are_handed_over_and_joined():
    exchange = ChatExchange(REQUEST)
    events = [delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop")]
    assert [exchange.feed(event) for event in events] == ["", "Hel", "lo", ""]
    response = exchange.finish(marked_end=True)
    assert (response.text, response.finish_reason) == ("Hello", "stop")
    assert json.loads(response.entry) == {"role": "assistant", "content": "Hello"}


def test_usage_comes_in_a_chunk_without_choices():
    response = stream(delta("stop", content="x"), {"choices": [], "usage": USAGE})
    assert response.usage == ModelUsage(10, 5, cached_tokens=4)
    assert whole({"content": "x"}, usage=USAGE).usage == response.usage


def test_usage_that_the_server_does_not_give_is_unknown():
    assert stream(delta("stop", content="x")).usage is None
    assert whole({"content": "x"}, usage=None).usage is None


def test_parallel_calls_are_put_together_by_index():
    response = stream(
        call(0, "a", "one"),
        call(1, "b", "two"),
        call(0, None, None, '{"x":'),
        call(1, None, None, "{}"),
        call(0, None, None, "1}"),
        delta("tool_calls"),
    )
    assert response.tool_calls == (ToolCall("a", "one", '{"x":1}'), ToolCall("b", "two", "{}"))
    assert response.finish_reason == "tool_calls"
    assert json.loads(response.entry) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "one", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "two", "arguments": "{}"}},
        ],
    }


@pytest.mark.parametrize("index", [None, 0])
def test_calls_without_an_index_of_their_own_are_told_apart_by_id(index: int | None):
    response = stream(call(index, "a", "one", '{"x":1}'), call(index, "b", "one", '{"x":2}'), delta("stop"))
    assert [c.arguments for c in response.tool_calls] == ['{"x":1}', '{"x":2}']
    assert response.finish_reason == "tool_calls"


def test_calls_without_index_and_id_are_told_apart_by_name_and_completeness():
    response = stream(
        call(None, "", "one", '{"x":1}'),
        call(None, "", "one", '{"x":2}'),
        call(None, "", "two", '{"y"'),
        call(None, None, None, ":3}"),
        delta("stop"),
    )
    assert [(c.name, c.arguments) for c in response.tool_calls] == [
        ("one", '{"x":1}'),
        ("one", '{"x":2}'),
        ("two", '{"y":3}'),
    ]


def test_an_id_and_name_repeated_in_each_delta_stay_one_call():
    response = stream(call(0, "a", "one", '{"x"'), call(0, "a", "one", ":1}"), delta("tool_calls"))
    assert response.tool_calls == (ToolCall("a", "one", '{"x":1}'),)


def test_repeated_and_missing_ids_survive_and_read_the_same_after_a_crash():
    message = {
        "content": None,
        "tool_calls": [
            {"id": "x", "function": {"name": "one", "arguments": "{broken"}},
            {"id": "x", "function": {"name": "two", "arguments": ""}},
            {"function": {"name": "three", "arguments": {"a": 1}}},
        ],
    }
    response = whole(message, "tool_calls")
    assert [c.arguments for c in response.tool_calls] == ["{broken", "{}", '{"a":1}']
    assert len({c.call_id for c in response.tool_calls}) == 3
    assert pending_calls("chat_completions", [response.entry]) == response.tool_calls
    assert whole(message, "tool_calls") == response


def test_a_thought_signature_is_kept_with_its_call():
    signed = {"google": {"thought_signature": "sig"}}
    chunk = call(0, "a", "one", "{}")
    chunk["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = signed
    entry = json.loads(stream(chunk, delta("stop")).entry)
    assert entry["tool_calls"][0]["extra_content"] == signed


def test_a_refusal_is_returned_with_its_words():
    response = stream(delta(refusal="I can"), delta("stop", refusal="not."))
    assert (response.text, response.refusal) == ("", "I cannot.")
    assert json.loads(response.entry)["refusal"] == "I cannot."
    assert whole({"content": None, "refusal": "No."}).refusal == "No."


def test_an_answer_that_a_filter_cut_is_a_refusal():
    response = stream(delta(content="half"), delta("content_filter"))
    assert (response.refusal, response.text, response.finish_reason) == (
        "content_filter",
        "half",
        "content_filter",
    )


def test_content_in_parts_is_read():
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert whole({"content": parts}).text == "ab"


def test_only_the_first_of_several_choices_counts():
    other = {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]}
    response = stream(delta(content="x"), other, delta("stop"), other)
    assert (response.text, response.finish_reason) == ("x", "stop")


def test_an_empty_answer_still_makes_a_message():
    assert json.loads(stream(delta("stop")).entry) == {"role": "assistant", "content": ""}


def test_a_cut_at_the_length_limit_says_so():
    assert stream(delta("length", content="x")).finish_reason == "length"


def test_an_end_without_a_reason_is_natural_if_it_was_marked():
    assert stream(delta(content="x")).finish_reason == "stop"


@pytest.mark.parametrize(
    ("events", "marked_end"), [([], True), ([{"choices": []}], True), ([delta(content="x")], False)]
)
def test_an_empty_or_cut_stream_is_worth_another_try(events: list[dict[str, Any]], marked_end: bool):
    with pytest.raises(ModelError) as caught:
        stream(*events, marked_end=marked_end)
    assert caught.value.classification is ErrorClassification.MODEL_UNAVAILABLE
    assert caught.value.retryable


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{}]}, {"choices": "x"}])
def test_an_answer_without_a_message_is_worth_another_try(answer: dict[str, Any]):
    with pytest.raises(ModelError) as caught:
        ChatExchange(REQUEST).whole(answer)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("event", "classification"),
    [
        ({"error": {"message": "m", "code": "rate_limit_exceeded"}}, ErrorClassification.MODEL_RATE_LIMITED),
        (
            {"error": {"message": "m", "type": "BadRequestError", "code": 400}},
            ErrorClassification.MODEL_REJECTED,
        ),
        ({"error": "overloaded"}, ErrorClassification.MODEL_UNAVAILABLE),
        ({"object": "error", "message": "m", "code": 500}, ErrorClassification.MODEL_UNAVAILABLE),
    ],
)
def test_an_error_inside_a_stream_or_an_ok_answer_is_raised(
    event: dict[str, Any], classification: ErrorClassification
):
    for take in (ChatExchange(REQUEST).feed, ChatExchange(REQUEST).whole):
        with pytest.raises(ModelError) as caught:
            take(event)
        assert caught.value.classification is classification


def test_a_character_cut_between_two_deltas_is_whole_in_the_entry():
    response = stream(delta(content="\ud83d"), delta("stop", content="\ude00"))
    assert json.loads(response.entry.encode())["content"] == "\U0001f600"
    assert response.text == "\U0001f600"
