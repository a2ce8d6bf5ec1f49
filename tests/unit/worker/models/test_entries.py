"""Entries: what is stored in threads, and what a resumed run reads back."""

import json

import pytest

from retinue.worker.models import (
    Api,
    ToolCall,
    assistant_entry,
    last_text,
    pending_calls,
    tool_result_head,
    user_entry,
)

APIS: list[Api] = ["chat_completions", "responses"]


def asks(api: Api, *calls: tuple[str, str], text: str = "") -> str:
    if api == "responses":
        items: list[dict[str, object]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "content": [part]})
        items += [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}
            for call_id, name in calls
        ]
        return ",".join(json.dumps(item) for item in items)
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for call_id, name in calls
    ]
    return json.dumps({"role": "assistant", "content": text, "tool_calls": tool_calls})


def result(api: Api, call_id: str, text: str = "done") -> str:
    return tool_result_head(api, call_id) + json.dumps(text) + "}"


@pytest.mark.parametrize("api", APIS)
def test_every_entry_is_valid_json_for_its_api(api: Api):
    entries = [user_entry(api, 'say "hi"\n'), assistant_entry(api, "hi"), result(api, 'id"1', "ü")]
    history = json.loads(f"[{','.join(entries)}]")
    if api == "chat_completions":
        assert history == [
            {"role": "user", "content": 'say "hi"\n'},
            {"role": "assistant", "content": "hi"},
            {"role": "tool", "tool_call_id": 'id"1', "content": "ü"},
        ]
    else:
        assert history == [
            {"type": "message", "role": "user", "content": 'say "hi"\n'},
            {"type": "message", "role": "assistant", "content": "hi"},
            {"type": "function_call_output", "call_id": 'id"1', "output": "ü"},
        ]


@pytest.mark.parametrize("api", APIS)
def test_calls_without_a_result_are_pending_in_order(api: Api):
    thread = [user_entry(api, "go"), asks(api, ("a", "one"), ("b", "two"), ("c", "three")), result(api, "b")]
    assert pending_calls(api, thread) == (ToolCall("a", "one", "{}"), ToolCall("c", "three", "{}"))


@pytest.mark.parametrize("api", APIS)
def test_steers_after_the_results_do_not_hide_what_was_answered(api: Api):
    thread = [asks(api, ("a", "one")), result(api, "a"), user_entry(api, "be quick")]
    assert pending_calls(api, thread) == ()


@pytest.mark.parametrize("api", APIS)
def test_only_the_last_assistant_entry_counts(api: Api):
    thread = [asks(api, ("a", "one")), assistant_entry(api, "never mind")]
    assert pending_calls(api, thread) == ()


@pytest.mark.parametrize("api", APIS)
def test_two_calls_under_one_id_need_two_results(api: Api):
    thread = [asks(api, ("a", "one"), ("a", "two")), result(api, "a")]
    assert [call.name for call in pending_calls(api, thread)] == ["two"]


@pytest.mark.parametrize("api", APIS)
def test_a_thread_without_an_assistant_has_nothing_pending(api: Api):
    assert pending_calls(api, []) == ()
    assert pending_calls(api, [user_entry(api, "go")]) == ()


@pytest.mark.parametrize("api", APIS)
def test_last_text_reads_the_assistants_words_alone(api: Api):
    assert last_text(api, assistant_entry(api, "hi")) == "hi"
    assert last_text(api, asks(api, ("a", "one"), text="on it")) == "on it"
    assert last_text(api, asks(api, ("a", "one"))) == ""
    assert last_text(api, user_entry(api, "hi")) == ""


def test_a_result_of_the_same_response_is_read_from_its_own_entry():
    entry = asks("responses", ("a", "one")) + "," + result("responses", "a")
    assert pending_calls("responses", [entry]) == ()
