"""The loop where it takes a run up again: what it finds in the thread, and how the last response ended."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.agents import Grant
from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket
from retinue.contract import ErrorClassification, Role, SubagentLaunchRequest, SubagentState, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence
from retinue.worker.models import Api, assistant_entry, user_entry
from retinue.worker.run.held import HeldRun
from retinue.worker.run.loop import AgentLoop
from retinue.worker.run.outcome import Finish, HandBack

KEY = RunKey("acme", new_run_id(7))
API: Api = "chat_completions"
CALLS = json.dumps(
    {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "pay", "arguments": "{}"}}]}
)


def held(thread: list[str], *, recorded: int, ending: str = "", thread_id: str = KEY.run_id) -> HeldRun:
    record = Record({"im": str(recorded), "it": str(recorded), "th": thread_id, "fr": ending})
    claimed = Claimed(
        fence=Fence(2, "token"),
        now_ms=0,
        record=record,
        request_json="{}",
        spec_json="{}",
        thread=thread,
        journal={},
        grants=[],
    )
    ticket = Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF)
    return HeldRun.of(KEY, claimed, ticket, EffectiveSpec(agent="support", max_iterations=50), Grant())


def loop_of(run: HeldRun) -> AgentLoop:
    """A loop in a process that stops, so that nothing is asked: it has a provider, and no store or tools."""
    draining = asyncio.Event()
    draining.set()

    def provider(_: object) -> object:
        return SimpleNamespace(api=API)

    services: Any = SimpleNamespace(provider=provider, draining=draining)
    return AgentLoop(services, run)


@pytest.mark.parametrize(
    ("ending", "text", "state", "classification"),
    [
        ("stop", "whole", SubagentState.SUCCEEDED, None),
        ("length", "half", SubagentState.INTERRUPTED, ErrorClassification.BUDGET_EXCEEDED),
        ("refused", "sorry", SubagentState.FAILED, ErrorClassification.CONTENT_REFUSED),
        ("stop", "", SubagentState.FAILED, ErrorClassification.OUTPUT_INVALID),
    ],
)
async def test_a_response_that_outlived_its_attempt_ends_the_run_as_it_would_have_then(
    ending: str, text: str, state: SubagentState, classification: ErrorClassification | None
) -> None:
    run = held([user_entry(API, "go"), assistant_entry(API, text)], recorded=1, ending=ending)

    outcome = await loop_of(run).drive()

    assert isinstance(outcome, Finish)
    assert (outcome.state, outcome.classification) == (state, classification)
    assert (outcome.summary or "") == text


async def test_a_run_takes_up_no_calls_and_no_answer_of_an_earlier_run() -> None:
    for left in (CALLS, assistant_entry(API, "of another run")):
        outcome = await loop_of(held([user_entry(API, "go"), left], recorded=0, thread_id="pair")).drive()
        assert isinstance(outcome, HandBack)


async def test_calls_that_an_earlier_run_left_open_are_answered_in_what_is_sent_alone() -> None:
    thread = [user_entry(API, "first"), CALLS, user_entry(API, "second")]
    run = held(list(thread), recorded=0, thread_id="pair")

    loop_of(run)

    roles = [json.loads(entry)["role"] for entry in run.thread]
    assert roles == ["user", "assistant", "tool", "user"]
    assert run.stored_length == len(thread), "the store counts what it holds"
    assert [entry for entry in run.thread if '"tool"' not in entry] == thread
