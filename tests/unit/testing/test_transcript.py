"""Histories that the real API refuses."""

from typing import Any

import pytest

from retinue.testing.request import Api, read_request
from retinue.testing.transcript import find_fault


def chat_fault(*messages: dict[str, Any]) -> str | None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}, *messages]}
    return find_fault(read_request(Api.CHAT_COMPLETIONS, body, {}))


def responses_fault(*items: dict[str, Any]) -> str | None:
    body = {"model": "m", "input": [{"role": "user", "content": "x"}, *items]}
    return find_fault(read_request(Api.RESPONSES, body, {}))


def asks(*ids: str) -> dict[str, Any]:
    calls = [{"id": id, "function": {"name": "t", "arguments": ""}} for id in ids]
    return {"role": "assistant", "tool_calls": calls}


def answers(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "r"}


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([asks("a", "b"), answers("a"), answers("b")], None),
        ([asks("a", "b"), answers("b"), answers("a"), asks("a"), answers("a")], None),
        ([asks("a", "b"), answers("a")], "did not have response messages: b"),
        ([asks("a"), {"role": "user", "content": "y"}, answers("a")], "did not have response messages: a"),
        ([asks("a"), answers("a"), answers("a")], "must be a response to a preceding message"),
        ([answers("a")], "must be a response to a preceding message"),
    ],
)
def test_chat_wants_exactly_one_result_per_call_right_after_it(
    messages: list[dict[str, Any]], complaint: str | None
) -> None:
    found = chat_fault(*messages)
    assert found is None if complaint is None else complaint in (found or "")


CALL = {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "r"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
USER = {"role": "user", "content": "y"}


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([REASONING, CALL, OUTPUT], None),
        ([CALL, USER, OUTPUT], None),
        ([CALL], "No tool output found for function call a"),
        ([OUTPUT], "No tool call found"),
        ([CALL, OUTPUT, OUTPUT], "No tool call found"),
        ([REASONING, USER], "'rs_1' of type 'reasoning'"),
        ([REASONING], "'rs_1' of type 'reasoning'"),
    ],
)
def test_responses_wants_one_output_per_call_and_reasoning_with_its_item(
    items: list[dict[str, Any]], complaint: str | None
) -> None:
    found = responses_fault(*items)
    assert found is None if complaint is None else complaint in (found or "")
