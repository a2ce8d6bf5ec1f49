"""A thread that both APIs wrote to, as either of them reads it."""

from __future__ import annotations

import json

import pytest

from retinue.worker.models import Api, assistant_entry, pending_calls, tool_result_head, user_entry
from retinue.worker.models.translation import translate

CALLS = [("c1", "search", '{"q": "a"}'), ("c2", "send_message", "{}")]
BOTH: list[Api] = ["chat_completions", "responses"]
FIRST = '{"role":"user","content":"hello"}'


def asking(api: Api, text: str) -> str:
    """A response with text and two calls, as its API stores it."""
    if api == "responses":
        said = {"type": "output_text", "text": text, "annotations": []}
        items: list[dict[str, object]] = [
            {"id": "rs_1", "type": "reasoning", "encrypted_content": "secret"},
            {"id": "msg_1", "type": "message", "role": "assistant", "content": [said]},
            *(
                {"type": "function_call", "call_id": c, "name": n, "arguments": a, "id": f"fc_{c}"}
                for c, n, a in CALLS
            ),
        ]
        return ",".join(json.dumps(item, separators=(",", ":")) for item in items)
    calls = [{"id": c, "type": "function", "function": {"name": n, "arguments": a}} for c, n, a in CALLS]
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    return json.dumps(message, separators=(",", ":"))


def thread(api: Api) -> list[str]:
    return [
        FIRST,
        asking(api, "Let me see."),
        *(f"{tool_result_head(api, c)}{json.dumps(f'result of {c}')}}}" for c, _, _ in CALLS),
        user_entry(api, "and?"),
        assistant_entry(api, "done"),
    ]


@pytest.mark.parametrize("api", BOTH)
def test_entries_of_the_own_api_stay_as_they_are_to_the_byte(api: Api) -> None:
    assert translate(api, thread(api)) == thread(api)


@pytest.mark.parametrize(("written", "read"), [BOTH, BOTH[::-1]])
def test_what_the_other_api_wrote_says_the_same_entry_by_entry(written: Api, read: Api) -> None:
    translated = translate(read, thread(written))

    assert len(translated) == len(thread(written))
    assert translated[0] == FIRST
    # Every call is answered; and before that, all calls are the same.
    assert pending_calls(read, translated[:4]) == ()
    assert pending_calls(read, translated[:2]) == pending_calls(written, thread(written)[:2])
    assert "secret" not in "".join(translated)
    plain = [json.loads(f"[{entry}]") for entry in translated]
    if read == "chat_completions":
        assert [[item["role"] for item in items] for items in plain] == [
            ["user"], ["assistant"], ["tool"], ["tool"], ["user"], ["assistant"],
        ]  # fmt: skip
        assert (plain[1][0]["content"], plain[2][0]["content"]) == ("Let me see.", "result of c1")
        assert (plain[4][0]["content"], plain[5][0]["content"]) == ("and?", "done")
    else:
        assert plain[1][0] == {"type": "message", "role": "assistant", "content": "Let me see."}
        assert plain[2][0] == {"type": "function_call_output", "call_id": "c1", "output": "result of c1"}
        assert (plain[4][0]["content"], plain[5][0]["content"]) == ("and?", "done")


@pytest.mark.parametrize(("written", "read"), [BOTH, BOTH[::-1]])
def test_a_response_without_text_is_one_of_calls_alone(written: Api, read: Api) -> None:
    (entry,) = translate(read, [asking(written, "")])
    items = json.loads(f"[{entry}]")
    if read == "chat_completions":
        assert items[0]["content"] is None
    else:
        assert [item["type"] for item in items] == ["function_call", "function_call"]


def test_a_thread_that_both_have_written_to_is_read_by_either() -> None:
    mixed = [*thread("chat_completions"), *thread("responses")]
    for api in BOTH:
        translated = translate(api, mixed)
        assert translate(api, translated) == translated
        json.loads(f"[{','.join(translated)}]")
