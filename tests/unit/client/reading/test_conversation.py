"""A conversation as a person reads it: nothing that a model thinks to itself, and nothing without end."""

from __future__ import annotations

import json
from typing import Any

from retinue.client.reading.conversation import CALLS_MAX, TEXT_MAX_CHARS, Speakers, shown_messages
from retinue.contract import Event

SECRET = "what nobody is to read"


def entry(*items: dict[str, Any]) -> str:
    return ",".join(json.dumps(item) for item in items)


def shown(*entries: str, iterations: int = 9) -> list[dict[str, Any]]:
    messages, _ = shown_messages(entries, Speakers("support", iterations))
    return [message.to_dict() for message in messages]


CHAT = (
    entry({"role": "user", "content": "May I?"}),
    entry(
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": SECRET,
            "reasoning": SECRET,
            "reasoning_details": [{"type": "reasoning.encrypted", "data": SECRET}],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":1}'}}
            ],
        }
    ),
    entry({"role": "tool", "tool_call_id": "c1", "content": "Found."}),
    entry(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes."}, {"type": "thinking", "text": SECRET}],
        }
    ),
)
RESPONSES = (
    entry({"type": "message", "role": "user", "content": "May I?"}),
    entry(
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": SECRET}],
            "encrypted_content": SECRET,
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me look."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":1}'},
    ),
    entry({"type": "function_call_output", "call_id": "c1", "output": "Found."}),
    entry(
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": SECRET}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ),
)


def test_both_formats_read_the_same_and_without_reasoning() -> None:
    nothing = {"calls": [], "calls_left_out": 0, "call": None}
    expected = [
        {"role": "user", "agent": None, "text": "May I?", **nothing},
        {
            "role": "assistant",
            "agent": "support",
            "text": "Let me look.",
            **nothing,
            "calls": [{"name": "search", "arguments": '{"q":1}'}],
        },
        {"role": "tool", "agent": None, "text": "Found.", **nothing, "call": "search"},
        {"role": "assistant", "agent": "support", "text": "Yes.", **nothing},
    ]
    assert shown(*CHAT) == expected
    assert shown(*RESPONSES) == expected
    assert SECRET not in json.dumps([shown(*CHAT), shown(*RESPONSES)])


def test_what_is_neither_user_nor_model_nor_tool_is_not_shown() -> None:
    entries = [
        entry({"role": "system", "content": SECRET}),
        entry({"role": "developer", "content": SECRET}),
        entry({"type": "reasoning", "encrypted_content": SECRET}),
        entry({"type": "item_reference", "id": SECRET}),
        "no JSON",
        '"text"',
    ]
    assert shown(*entries) == []


def test_long_texts_and_many_calls_are_cut_and_say_so() -> None:
    calls = [
        {"id": f"c{n}", "function": {"name": "f", "arguments": "x" * (TEXT_MAX_CHARS + 7)}}
        for n in range(CALLS_MAX + 3)
    ]
    [message] = shown(
        entry({"role": "assistant", "content": "y" * (TEXT_MAX_CHARS + 1234), "tool_calls": calls})
    )
    assert message["text"].endswith("… [1,234 more characters]")
    assert len(message["text"]) < TEXT_MAX_CHARS + 100
    assert len(message["calls"]) == CALLS_MAX
    assert message["calls_left_out"] == 3
    assert message["calls"][0]["arguments"].endswith("… [7 more characters]")


def test_a_refusal_is_shown() -> None:
    assert (
        shown(entry({"role": "assistant", "content": None, "refusal": "I will not."}))[0]["text"]
        == "I will not."
    )
    parts = [{"type": "refusal", "refusal": "No."}]
    assert shown(entry({"type": "message", "role": "assistant", "content": parts}))[0]["text"] == "No."


def test_earlier_runs_agents_are_not_known_and_handoffs_are() -> None:
    turns = [entry({"role": "assistant", "content": str(n)}) for n in range(4)]
    logged = [
        ("model.finished", "r", {}),
        ("run.handed_off", "r", {"from": "triage", "to": "refunds"}),
        ("model.finished", "other", {}),
        ("model.finished", "r", {}),
        ("model.finished", "r", {}),
    ]
    events = [
        Event.from_json(number, json.dumps({"e": kind, "r": run_id, "t": 0, **data}))
        for number, (kind, run_id, data) in enumerate(logged, start=1)
    ]
    speakers = Speakers.of("r", "refunds", 3, events)
    messages, after = shown_messages(turns, speakers)
    assert [message.agent for message in messages] == [None, "triage", "refunds", "refunds"]
    assert after == 4
    older, _ = shown_messages(turns[:2], speakers, after=2)
    assert [message.agent for message in older] == [None, "triage"]
