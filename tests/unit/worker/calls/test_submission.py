"""What ends a run that owes an object, read off its thread alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retinue.agents import Grant
from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket
from retinue.contract import ErrorClassification, Role, SubagentLaunchRequest, SubagentState, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence
from retinue.worker.calls.call_handler import Answered
from retinue.worker.calls.submission import Correction, Submission
from retinue.worker.calls.turn import CallKind, Turn, TurnCall
from retinue.worker.models import Api, ToolCall, assistant_entry, pending_calls, user_entry
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish

KEY = RunKey("acme", new_run_id(7))
API: Api = "chat_completions"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
}
FITS, UNFIT = '{"n": 1}', '{"n": "one"}'
GOAL = user_entry(API, "goal")
SENT_BACK = user_entry(API, "again")
SPEC = EffectiveSpec(agent="a", max_iterations=9, output_schema=SCHEMA)


class Tools:
    """Keeps what is answered to a call."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.keeps = keeps
        self.answered: list[tuple[int, str, bool]] = []

    async def record(self, index: int, tool: str, text: str, *, ok: bool, started: float) -> bool:
        assert tool == "submit_result"
        assert started > 0
        self.answered.append((index, text, ok))
        return self.keeps


def says(text: str) -> str:
    return assistant_entry(API, text)


def calls(*arguments: str, name: str = "submit_result") -> str:
    made = [{"id": f"c{n}", "function": {"name": name, "arguments": a}} for n, a in enumerate(arguments)]
    return json.dumps({"role": "assistant", "tool_calls": made})


def submission(
    *thread: str, responses: int, spec: EffectiveSpec = SPEC, tools: Tools | None = None
) -> Submission:
    """Of a run that has made so many of the thread's responses."""
    record = Record({"im": str(responses), "it": str(responses), "th": KEY.run_id})
    claimed = Claimed(
        fence=Fence(2, "token"),
        now_ms=0,
        record=record,
        request_json="{}",
        spec_json="{}",
        thread=[GOAL, *thread],
        journal={},
        grants=[],
    )
    ticket = Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF)
    run = HeldRun.of(KEY, claimed, ticket, spec, Grant())
    found: Any = tools or Tools()
    return Submission(run, found)


def good(text: str) -> Finish:
    return Finish(SubagentState.SUCCEEDED, summary=text, natural=True)


def turn(entry: str) -> tuple[ToolCall, ...]:
    return pending_calls(API, [entry])


def test_a_text_that_fits_ends_the_run_with_its_object() -> None:
    end = submission(responses=0).end_of_answer(API, good(f"```json\n{FITS}\n```"))

    assert end == Finish(SubagentState.SUCCEEDED, summary='{"n":1}', natural=True, payload={"n": 1})


def test_a_text_that_does_not_fit_is_sent_back_with_what_is_wrong() -> None:
    end = submission(responses=0).end_of_answer(API, good(UNFIT))

    assert isinstance(end, Correction)
    assert "$.n: 'one' is not of type 'integer'" in end.text
    assert "submit_result" in end.text


@pytest.mark.parametrize(
    "before",
    [
        [says(UNFIT), SENT_BACK],
        [says("done"), SENT_BACK],
        [calls(UNFIT)],
        [says("done"), SENT_BACK, calls("{}", name="search")],
    ],
)
def test_the_second_that_does_not_fit_ends_the_run_whichever_way_it_came(before: list[str]) -> None:
    made = sum("assistant" in entry for entry in before)

    text = submission(*before, responses=made).end_of_answer(API, good("again"))
    recorded = submission(*before, says("again"), responses=made + 1).end_of_recorded_answer(good("again"))
    submitted = submission(*before, calls(UNFIT), responses=made + 1).end_of_turn(API, turn(calls(UNFIT)))

    for end in (text, recorded, submitted):
        assert isinstance(end, Finish)
        assert (end.state, end.classification) == (SubagentState.FAILED, ErrorClassification.OUTPUT_INVALID)
        assert end.message
        assert end.message.startswith("the result does not fit the output schema")
        assert not end.natural
    assert (text.summary, submitted.summary) == ("again", UNFIT)  # pyright: ignore[reportAttributeAccessIssue,reportOptionalMemberAccess]


@pytest.mark.parametrize(
    "before",
    [
        [calls("{}", name="search")],  # asked for tools only
        [says(FITS)],  # fitted, and a steer came before the end
        [calls(FITS)],
        [calls(UNFIT, FITS)],
    ],
)
def test_what_was_not_sent_back_takes_no_try_away(before: list[str]) -> None:
    assert isinstance(submission(*before, responses=1).end_of_answer(API, good("x")), Correction)
    assert submission(*before, calls(UNFIT), responses=2).end_of_turn(API, turn(calls(UNFIT))) is None


def test_what_earlier_runs_in_the_thread_were_sent_back_takes_no_try_away() -> None:
    assert isinstance(
        submission(says(UNFIT), SENT_BACK, says("x"), GOAL, responses=0).end_of_answer(API, good("x")),
        Correction,
    )


def test_a_recorded_text_that_fits_ends_the_run_after_a_crash_too() -> None:
    end = submission(says(FITS), responses=1).end_of_recorded_answer(good(FITS))

    assert (end.payload, end.natural) == ({"n": 1}, True)


@pytest.mark.parametrize("state", [SubagentState.FAILED, SubagentState.INTERRUPTED])
def test_a_run_that_ends_otherwise_is_not_asked_for_its_object(state: SubagentState) -> None:
    end = Finish(state, ErrorClassification.CONTENT_REFUSED, "no")

    assert submission(responses=0).end_of_answer(API, end) is end
    assert submission(responses=1).end_of_recorded_answer(end) is end


def test_a_run_without_a_schema_ends_with_any_text() -> None:
    spec = EffectiveSpec(agent="a", max_iterations=9)

    assert submission(responses=0, spec=spec).end_of_answer(API, good("x")) == good("x")
    assert submission(calls(FITS), responses=1, spec=spec).end_of_turn(API, turn(calls(FITS))) is None


async def test_each_call_is_told_whether_its_result_is_accepted() -> None:
    tools = Tools()
    handler = submission(responses=1, tools=tools)
    for index, call in enumerate(turn(calls(UNFIT, FITS))):
        assert await handler.start(TurnCall(index, call, CallKind.SUBMISSION), lost=True) == Answered()

    (first, refusal, bad), (second, acceptance, fine) = tools.answered
    assert (first, bad, second, fine) == (0, False, 1, True)
    assert refusal.startswith("[ERROR] ")
    assert "'one' is not of type 'integer'" in refusal
    assert acceptance.startswith("[OK] ")


async def test_an_attempt_that_is_fenced_judges_for_nobody() -> None:
    handler = submission(responses=1, tools=Tools(keeps=False))
    [call] = turn(calls(FITS))

    assert await handler.start(TurnCall(0, call, CallKind.SUBMISSION), lost=False) == Fenced()


def test_of_several_results_in_one_turn_the_first_that_fits_counts() -> None:
    made = calls(UNFIT, '{"n": 2}', FITS)

    end = submission(made, responses=1).end_of_turn(API, turn(made))

    assert end
    assert end.payload == {"n": 2}


def test_a_result_is_judged_after_everything_else_that_its_turn_asks_for() -> None:
    entry = json.dumps(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "function": {"name": "submit_result", "arguments": FITS}},
                {"id": "b", "function": {"name": "search", "arguments": "{}"}},
            ],
        }
    )
    made = Turn.of(turn(entry), SPEC)

    assert [asked.index for asked in made.next_batch(set())] == [1]
    assert [asked.index for asked in made.next_batch({1})] == [0]
    assert [asked.index for asked in made.next_batch(set(), parallel=False)] == [1]
    assert made.next_batch({0, 1}) == ()


def test_no_schema_no_tool() -> None:
    [asked] = Turn.of(turn(calls(FITS)), EffectiveSpec(agent="a", max_iterations=9)).calls

    assert asked.kind is CallKind.UNKNOWN
