"""Which calls a human is asked about, and what is done once one has decided."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.agents import Grant, Registry, tool
from retinue.agents.effective.effective import EffectiveSpec, ToolSpec
from retinue.broker.settings import Settings
from retinue.client.launching.ticket import Ticket
from retinue.contract import Phase, RequestKind, Role, SubagentLaunchRequest, SubagentState, new_run_id
from retinue.store.call import RunKey
from retinue.store.operations.asking import Asked
from retinue.store.record import Record
from retinue.store.replies import (
    Begun,
    Fence,
    NotApproved,
    Recorded,
    RequestState,
    Stale,
    Stopped,
    UsedBefore,
)
from retinue.worker.calls.call_handler import Answered, Waiting
from retinue.worker.calls.human_calls import HumanCalls
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN, ToolCalls
from retinue.worker.calls.turn import CallKind, TurnCall, kind_of
from retinue.worker.models import ToolCall
from retinue.worker.run.held import HeldRun
from retinue.worker.run.hook_calls import HookCalls
from retinue.worker.run.outcome import Fenced, Finish

ran: list[int] = []


@tool(requires_confirmation=True)
def refund(order: int) -> str:
    """Pay an order back."""
    ran.append(order)
    return "refunded"


@tool(requires_confirmation=True, redact=["pin"])
def open_safe(shelf: int, pin: str) -> str:
    """Open the safe."""
    ran.append(shelf)
    return f"open with {pin}"


SAFE = ToolSpec(
    name="open_safe",
    api_name="open_safe",
    toolset="open_safe",
    description="Open.",
    parameters={"type": "object", "properties": {"shelf": {"default": 4}, "pin": {"type": "string"}}},
    requires_confirmation=True,
)
REFUND = ToolSpec(
    name="refund",
    api_name="refund",
    toolset="refund",
    description="Pay back.",
    parameters=dict(refund.parameters),
    requires_confirmation=True,
)
WHERE = ToolSpec(
    name="where are you",
    api_name="where_are_you",
    toolset="where are you",
    description="Ask the caller.",
    parameters={
        "type": "object",
        "properties": {"unit": {"type": "string"}, "polite": {"type": "boolean", "default": True}},
        "required": ["unit"],
    },
    kind="client",
    requires_confirmation=True,
)
SPEC = EffectiveSpec(
    agent="clerk", max_iterations=5, tools=(REFUND, WHERE, SAFE), ask_user=True, ask_parent=True
)


class Store:
    """Answers the use of an approval as told, and keeps what is recorded."""

    def __init__(self, begun: object = None) -> None:
        self.begun = begun
        self.used: list[tuple[object, ...]] = []
        self.results: list[tuple[str, bool]] = []
        self.store = self

    async def run(self, call: Any) -> object:
        if call.script.name == "begin_approved":
            self.used.append(call.argv[-2:])
            return self.begun
        assert call.script.name == "record_tool_result"
        self.results.append((json.loads(call.argv[8]), call.argv[10] == "true"))
        return Recorded()


def human_calls(
    store: Store, *, state: RequestState | None = None, grant: Grant | None = None, known: bool = True
) -> HumanCalls:
    key = RunKey("_", new_run_id(3))
    services: Any = SimpleNamespace(
        store=store,
        registry=Registry.from_objects(refund, open_safe) if known else Registry.from_objects(),
        settings=Settings.read(store_url="redis://localhost"),
        hooks=HookCalls((), 1.0),
    )
    run = HeldRun(
        key=key,
        fence=Fence(1, "token"),
        record=Record({"th": key.run_id, "sess": "s"}),
        ticket=Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF),
        spec=SPEC,
        spec_is_pinned=True,
        grant=grant or Grant(),
        thread=[],
        journal={},
        iteration=2,
        deadline=None,
        decisions={"2:0": state} if state else {},
    )
    return HumanCalls(services, run, ToolCalls(services, run))


def turn_call(name: str = "refund", arguments: str = '{"order": 7}') -> TurnCall:
    call = ToolCall("c1", name, arguments)
    return TurnCall(0, call, kind_of(call, SPEC))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_a_call_that_needs_an_approval_waits_for_it_and_does_not_run() -> None:
    ran.clear()
    store = Store()
    outcome = await human_calls(store).start(turn_call(arguments='{ "order":7 }'), lost=False)
    asked = Asked(RequestKind.APPROVAL, "refund", "c1", {"order": 7}, digest('{"order":7}'))
    assert outcome == Waiting(Phase.WAITING_APPROVAL, asked)
    assert (ran, store.results) == ([], [])


async def test_a_call_that_the_caller_answers_waits_for_the_answer_alone() -> None:
    asked = turn_call("where_are_you", '{"unit": "town"}')
    assert asked.kind is CallKind.INPUT
    outcome = await human_calls(Store()).start(asked, lost=False)
    arguments = {"unit": "town", "polite": True}
    said = digest('{"polite":true,"unit":"town"}')
    question = Asked(RequestKind.INPUT, "where are you", "c1", arguments, said)
    assert outcome == Waiting(Phase.WAITING_INPUT, question), "with the default that the model left out"


@pytest.mark.parametrize("name", ["ask_user", "ask_parent"])
async def test_a_question_is_an_input_that_says_whether_the_model_above_is_meant(name: str) -> None:
    store = Store()
    outcome = await human_calls(store).start(turn_call(name, '{"question": "Which?"}'), lost=False)
    arguments = digest('{"question":"Which?"}')
    asked = Asked(
        RequestKind.INPUT, name, "c1", {"question": "Which?"}, arguments, to_parent=name == "ask_parent"
    )
    assert outcome == Waiting(Phase.WAITING_INPUT, asked)
    assert store.results == []


@pytest.mark.parametrize(
    "arguments", ["{}", '{"question": " "}', '{"question": 7}', '{"question": "a", "b": 1}']
)
async def test_a_question_that_asks_nothing_or_more_is_refused(arguments: str) -> None:
    store = Store()
    assert await human_calls(store).start(turn_call("ask_user", arguments), lost=False) == Answered()
    [(text, ok)] = store.results
    assert (text.startswith("[ERROR] The call was not run"), ok) == (True, False)


async def test_a_question_within_a_grant_that_blocks_it_asks_nobody() -> None:
    store = Store()
    calls = human_calls(store, grant=Grant(blocked_tools=("ask_user",)))
    assert await calls.start(turn_call("ask_user", '{"question": "Which?"}'), lost=False) == Answered()
    assert store.results == [("[ERROR] The tool 'ask_user' is not available.", False)]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("refund", '{"order": "x"}', "argument 'order'"),
        ("refund", "no json", "not valid JSON"),
        ("refund", '{"order": 7, "deep": ' + "[" * 70 + "]" * 70 + "}", "64 levels"),
        ("refund", '{"order": 7, "x": "' + "x" * 70_000 + '"}', "65,536 bytes"),
        ("refund", '{"order": 7, "x": "\\ud800"}', "UTF-8"),
        ("where_are_you", "{}", "unit"),
    ],
)
async def test_nobody_is_asked_about_a_call_that_would_fail(name: str, arguments: str, said: str) -> None:
    store = Store()
    assert await human_calls(store).start(turn_call(name, arguments), lost=False) == Answered()
    [(text, ok)] = store.results
    assert text.startswith("[ERROR]")
    assert said in text
    assert not ok


async def test_nobody_is_asked_about_a_tool_that_is_not_there_or_not_granted() -> None:
    for how in ({"known": False}, {"grant": Grant(blocked_tools=("refund",))}):
        store = Store()
        await human_calls(store, **how).start(turn_call(), lost=False)  # pyright: ignore[reportArgumentType]
        assert store.results == [("[ERROR] The tool 'refund' is not available.", False)]


async def test_what_was_asked_waits_on_whatever_this_worker_knows_of_the_tool() -> None:
    outcome = await human_calls(Store(), state=RequestState.OPEN, known=False).start(turn_call(), lost=True)
    assert isinstance(outcome, Waiting)


async def test_an_approved_call_runs_although_an_earlier_attempt_was_lost() -> None:
    ran.clear()
    store = Store(Begun())
    outcome = await human_calls(store, state=RequestState.APPROVED).start(turn_call(), lost=True)
    assert outcome == Answered()
    assert (ran, store.results) == ([7], [("refunded", True)])
    assert store.used == [("2:0", digest('{"order":7}'))]


async def test_a_call_whose_approval_was_used_before_is_not_run_again() -> None:
    ran.clear()
    store = Store(UsedBefore())
    await human_calls(store, state=RequestState.USED).start(turn_call(), lost=True)
    assert (ran, store.results) == ([], [(OUTCOME_UNKNOWN, False)])


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [(NotApproved(), Answered()), (Stale(), Fenced()), (Stopped("CANCEL"), Finish(SubagentState.CANCELLED))],
    ids=["not approved", "stale", "cancelled"],
)
async def test_an_approval_that_the_store_does_not_let_be_used_runs_nothing(
    reply: object, outcome: object
) -> None:
    ran.clear()
    assert (
        await human_calls(Store(reply), state=RequestState.APPROVED).start(turn_call(), lost=False) == outcome
    )
    assert ran == []


async def test_what_a_tool_redacts_is_approved_unseen_and_run_as_it_was() -> None:
    ran.clear()
    call = turn_call("open_safe", '{"pin": "1234"}')
    outcome = await human_calls(Store()).start(call, lost=False)
    arguments = {"shelf": 4, "pin": "[redacted]"}
    said = digest('{"pin":"1234","shelf":4}')
    assert outcome == Waiting(
        Phase.WAITING_APPROVAL, Asked(RequestKind.APPROVAL, "open_safe", "c1", arguments, said)
    ), "the approval is for the value, and for the document's default"

    store = Store(Begun())
    await human_calls(store, state=RequestState.APPROVED).start(call, lost=False)
    assert store.results == [("open with 1234", True)]
    assert ran == [4]
