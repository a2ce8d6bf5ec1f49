"""One view of a request for both wire formats."""

from typing import Any

import pytest

from retinue.testing.request import Api, Message, ScriptedRequest, ToolResult, read_request


def chat(*messages: dict[str, Any], **fields: Any) -> ScriptedRequest:
    return read_request(Api.CHAT_COMPLETIONS, {"model": "m", "messages": list(messages), **fields}, {})


def responses(*items: dict[str, Any], **fields: Any) -> ScriptedRequest:
    return read_request(Api.RESPONSES, {"model": "m", "input": list(items), **fields}, {})


CHAT_HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a."},
    {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "c2", "type": "function", "function": {"name": "run_agent", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
    {"role": "tool", "tool_call_id": "c2", "content": "ran"},
]
RESPONSES_HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": "one two"}]},
    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "run_agent", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    {"type": "function_call_output", "call_id": "c2", "output": "ran"},
]


@pytest.mark.parametrize(
    "request_",
    [chat(*CHAT_HISTORY), responses(*RESPONSES_HISTORY, instructions="You are a.")],
    ids=["chat", "responses"],
)
def test_both_formats_give_the_same_view(request_: ScriptedRequest) -> None:
    assert request_.system == "You are a."
    assert request_.last_user == "one two"
    assert request_.turn == 1
    assert request_.results == (
        ToolResult("c1", "look", "seen", 0),
        ToolResult("c2", "run_agent", "ran", 0),
    )
    assert request_.last_results == request_.results
    assert [result.text for result in request_.results_of("run_agent")] == ["ran"]


def test_results_of_earlier_turns_are_not_the_last_ones() -> None:
    request = chat(
        *CHAT_HISTORY, {"role": "assistant", "content": "well"}, {"role": "user", "content": "and?"}
    )
    assert request.turn == 2
    assert request.last_results == ()
    assert len(request.results) == 2


def test_turns_since_the_last_user_message_start_anew() -> None:
    request = chat(*CHAT_HISTORY, {"role": "user", "content": "steer"})
    assert (request.turn, request.turn_since_user) == (1, 0)


def test_a_plain_string_is_a_responses_user_message() -> None:
    request = read_request(Api.RESPONSES, {"model": "m", "input": "hello"}, {})
    assert request.messages == (Message("user", "hello"),)
    assert request.turn == 0


def test_a_responses_turn_after_a_result_is_a_new_turn() -> None:
    more = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]}
    assert responses(*RESPONSES_HISTORY, more).turn == 2


def test_tools_are_named_in_both_formats() -> None:
    user = {"role": "user", "content": "x"}
    nested = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    flat = [{"type": "function", "name": "look", "parameters": {}}]
    assert chat(user, tools=nested).tools == responses(user, tools=flat).tools == ("look",)


@pytest.mark.parametrize("body", [[], {}, {"model": "m"}, {"model": "m", "messages": []}])
def test_what_the_api_would_refuse_is_an_error(body: Any) -> None:
    with pytest.raises(ValueError):
        read_request(Api.CHAT_COMPLETIONS, body, {})


def test_headers_and_bodies_stay_out_of_the_repr() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "x"}], "private": "hidden-body"}
    request = read_request(Api.RESPONSES, body, {"authorization": "Bearer hidden-key"})
    assert "hidden" not in repr(request)
