"""Request bodies of both APIs."""

import json
from typing import Any

import pytest

from retinue.contract import ErrorClassification
from retinue.worker.models import ModelError, ModelRequest, Provider, ToolSchema, user_entry
from retinue.worker.models.chat import ChatExchange
from retinue.worker.models.dialect import Dialect
from retinue.worker.models.responses import ResponsesExchange

TOOL = ToolSchema("search", "Finds.", {"type": "object", "properties": {"q": {"type": "string"}}})


def provider(**fields: Any) -> Provider:
    return Provider(**{"name": "p", "base_url": "http://localhost/v1", **fields})


def chat_body(request: ModelRequest, dialect: Dialect | None = None) -> dict[str, Any]:
    return json.loads(ChatExchange(request).body(dialect or Dialect()))


def responses_body(request: ModelRequest, dialect: Dialect | None = None) -> dict[str, Any]:
    return json.loads(ResponsesExchange(request).body(dialect or Dialect()))


def test_a_chat_request_has_the_system_prompt_first_and_the_history_as_stored():
    entry = '{"role": "user",  "content": "hi \\u00fc"}'
    request = ModelRequest(provider=provider(), model="m", system="Be kind.", entries=[entry], tools=[TOOL])
    assert entry.encode() in ChatExchange(request).body(Dialect())
    assert chat_body(request) == {
        "model": "m",
        "tools": [
            {
                "type": "function",
                "function": {"name": "search", "description": "Finds.", "parameters": TOOL.parameters},
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be kind."}, json.loads(entry)],
    }


def test_a_responses_request_stores_nothing_and_asks_for_encrypted_reasoning():
    entries = [user_entry("responses", "hi"), '{"type":"reasoning"},{"type":"message","role":"assistant"}']
    request = ModelRequest(provider=provider(), model="m", system="Be kind.", entries=entries, tools=[TOOL])
    assert responses_body(request) == {
        "model": "m",
        "instructions": "Be kind.",
        "tools": [
            {
                "type": "function",
                "name": "search",
                "description": "Finds.",
                "parameters": TOOL.parameters,
                "strict": False,
            }
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "input": [
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "reasoning"},
            {"type": "message", "role": "assistant"},
        ],
    }


def test_nothing_is_said_about_a_system_prompt_tools_or_usage_that_are_not_there():
    request = ModelRequest(provider=provider(stream=False), model="m")
    assert chat_body(request) == {"model": "m", "stream": False, "messages": []}
    assert not {"instructions", "tools", "stream_options"} & responses_body(request).keys()


def test_params_pass_through_and_the_output_limit_gets_the_apis_name():
    params = {"temperature": 0, "max_tokens": 5, "top_p": None, "reasoning_effort": "low"}
    request = ModelRequest(provider=provider(), model="m", params=params)
    body = chat_body(request)
    assert (body["temperature"], body["max_tokens"], body["reasoning_effort"]) == (0, 5, "low")
    assert "top_p" not in body
    other = chat_body(request, Dialect(limit_key="max_completion_tokens"))
    assert other["max_completion_tokens"] == 5
    assert "max_tokens" not in other
    assert responses_body(request)["max_output_tokens"] == 5


def test_overrides_win_and_none_removes():
    overrides = {"temperature": 1, "stream_options": None, "chat_template_kwargs": {"thinking": False}}
    request = ModelRequest(provider=provider(overrides=overrides), model="m", params={"temperature": 0})
    body = chat_body(request)
    assert body["temperature"] == 1
    assert body["chat_template_kwargs"] == {"thinking": False}
    assert "stream_options" not in body


def test_streaming_turned_off_by_an_override_leaves_no_options_behind():
    request = ModelRequest(provider=provider(overrides={"stream": False}), model="m")
    assert chat_body(request) == {"model": "m", "stream": False, "messages": []}


def test_without_encrypted_reasoning_include_is_left_out():
    assert "include" not in responses_body(
        ModelRequest(provider=provider(), model="m"), Dialect(encrypted_reasoning=False)
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"provider": provider(), "params": {"messages": []}}, "messages"),
        ({"provider": provider(), "params": {"stream": False}}, "stream"),
        ({"provider": provider(overrides={"input": []})}, "input"),
        ({"provider": provider(), "params": {"stop": object()}}, "JSON"),
        ({"provider": provider(), "params": {"temperature": float("nan")}}, "JSON"),
    ],
)
def test_params_and_overrides_that_cannot_be_sent_are_refused_by_name(fields: dict[str, Any], named: str):
    with pytest.raises(ModelError, match=named) as caught:
        chat_body(ModelRequest(model="m", **fields))
    assert caught.value.classification is ErrorClassification.MODEL_REJECTED
    assert not caught.value.retryable


def test_a_lone_surrogate_in_a_prompt_does_not_stop_the_request():
    assert (
        chat_body(ModelRequest(provider=provider(), model="m", system="\ud800"))["messages"][0]["content"]
        == "\ufffd"
    )
