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
from retinue.worker.models.entries import answer_cut_calls, last_said

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


@pytest.mark.parametrize("api", APIS)
def test_the_text_that_was_said_last_is_found_behind_calls_and_results(api: Api) -> None:
    earlier, said = assistant_entry(api, "of an earlier run"), assistant_entry(api, "so far")
    silent = {
        "chat_completions": '{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]}',
        "responses": '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}',
    }[api]
    result = tool_result_head(api, "c") + '"done"}'
    thread = [earlier, user_entry(api, "task"), said, silent, result]

    assert last_said(api, thread, 2) == "so far"
    assert last_said(api, thread, 1) is None
    assert last_said(api, [earlier, user_entry(api, "task")], 0) is None


@pytest.mark.parametrize("api", APIS)
def test_calls_left_open_before_a_later_entry_are_answered_as_cut_behind_their_results(api: Api) -> None:
    asked = asks(api, ("a", "one"), ("b", "two"), ("c", "three"))
    thread = [user_entry(api, "go"), asked, result(api, "b"), user_entry(api, "again")]

    mended = answer_cut_calls(api, thread)

    assert [*mended[:3], mended[-1]] == thread
    answers = [json.loads(entry) for entry in mended[3:-1]]
    ids = [answer["call_id" if api == "responses" else "tool_call_id"] for answer in answers]
    assert ids == ["a", "c"]
    texts = [answer["output" if api == "responses" else "content"] for answer in answers]
    assert all(text.startswith("[CUT] ") for text in texts)
    assert pending_calls(api, mended) == ()


@pytest.mark.parametrize("api", APIS)
def test_a_mended_history_keeps_its_bytes_when_entries_join_it(api: Api) -> None:
    thread = [asks(api, ("a", "one")), user_entry(api, "x"), asks(api, ("a", "one")), asks(api, ("b", "two"))]
    longer = [*thread, result(api, "b"), user_entry(api, "more"), assistant_entry(api, "done")]

    mended = answer_cut_calls(api, thread)

    assert len(mended) == len(thread) + 2, "each under its own response, though they share an id"
    assert answer_cut_calls(api, longer)[: len(mended)] == mended
    assert answer_cut_calls(api, mended) == mended


@pytest.mark.parametrize("api", APIS)
def test_the_last_calls_may_still_be_answered_and_are_left_alone(api: Api) -> None:
    thread = [user_entry(api, "go"), asks(api, ("a", "one"), ("b", "two")), result(api, "a")]
    assert answer_cut_calls(api, thread) == thread
    assert answer_cut_calls(api, []) == []
