"""The agent loop: boundary, model, record, tools, until the run ends or leaves this worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from retinue.agents.builtin_tools.output import SUBMIT_RESULT
from retinue.agents.effective.effective import Capabilities, RunnerKind
from retinue.contract import NAME_MAX_CHARS, ErrorClassification, Phase, SubagentState
from retinue.store.operations import running
from retinue.store.record import Ending, WakeUp
from retinue.store.replies import (
    Passed,
    Paused,
    Pin,
    RecordedResponse,
    Response,
    Spent,
    Stale,
    Stopped,
    Unpriced,
)
from retinue.worker.calls.calls import CallAnswers
from retinue.worker.calls.submission import Correction
from retinue.worker.calls.turn import Turn
from retinue.worker.models import (
    Api,
    ModelResponse,
    ModelUsage,
    ToolCall,
    pending_calls,
    tool_result_head,
    user_entry,
)
from retinue.worker.models.entries import answer_cut_calls, is_answer, last_said, last_text
from retinue.worker.models.translation import translate
from retinue.worker.run.asking import Aborted, ask
from retinue.worker.run.ending import stopped
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish, HandBack, Left, Outcome
from retinue.worker.run.reserving import reservation, spent, unpriced
from retinue.worker.services import Services


class AgentLoop:
    """Runs a declared agent.

    Args:
        services: The process's.
        run: The run that it goes on with, from wherever the store says that it stands.
    """

    capabilities: ClassVar[Capabilities] = RunnerKind.LOOP.capabilities

    def __init__(self, services: Services, run: HeldRun) -> None:
        self._services = services
        self._run = run
        self._answers = CallAnswers(services, run)
        self._api: Api = services.provider(run.spec).api
        self._fresh = False
        # Who wrote to it before may have spoken to its model in another format.
        run.thread = translate(self._api, run.thread)
        if run.shares_its_thread:
            whole = answer_cut_calls(self._api, run.thread)
            run.put_in += len(whole) - len(run.thread)
            run.thread = whole

    async def drive(self, *, overtaken: bool = False) -> Outcome:
        """Goes on until the run is to end, waits elsewhere, or is not ours any more.

        Args:
            overtaken: A steer came before the run could end: pass another boundary.
        """
        outcome = await self._go_on(overtaken=overtaken)
        if isinstance(outcome, Finish) and outcome.summary is None:
            # What was said before this attempt stands in the thread only.
            return replace(outcome, summary=last_said(self._api, self._run.thread, self._run.iteration))
        return outcome

    async def _go_on(self, *, overtaken: bool) -> Outcome:
        run = self._run
        if not overtaken and run.iteration and is_answer(self._api, run.thread[-1]):
            # The response was recorded, and the attempt died before it could end the run.
            end = natural_end(last_text(self._api, run.thread[-1]), run.record.ending, run)
            return self._answers.submission.end_of_recorded_answer(end)
        while True:
            # Before its first response the thread holds what earlier runs have said: nothing of that is its.
            calls = pending_calls(self._api, run.thread) if run.iteration else ()
            if calls:
                left = await self._answers.answer(calls, fresh=self._fresh)
                if left is None and not overtaken and not run.takes_over:
                    left = self._end_of_turn(calls)
                if left is not None:
                    return self._with_answers(left, calls) if isinstance(left, Finish) else left
            overtaken = False
            if self._services.draining.is_set():
                return HandBack()
            passed = await self._boundary(calls)
            if not isinstance(passed, Passed):
                return passed
            answer = await self._iterate(passed)
            if answer is not None:
                return answer

    def _end_of_turn(self, calls: Sequence[ToolCall]) -> Finish | None:
        in_time = Turn.of(calls, self._run.spec).in_time
        return self._answers.submission.end_of_turn(self._api, in_time)

    def _with_answers(self, end: Finish, calls: Sequence[ToolCall]) -> Finish:
        """The end, with the results that there are: no boundary puts them into the thread any more."""
        return replace(end, answers=tuple(self._heads(calls)))

    async def _boundary(self, calls: Sequence[ToolCall]) -> Passed | Finish | Left | Fenced:
        run = self._run
        # Lowered before it is asked: who begins to listen after the answer sends a hint.
        run.is_heard = False
        reply = await self._services.store.run(
            running.boundary(
                run.key,
                run.fence,
                run.operation(),
                thread_length=run.stored_length,
                results=self._heads(calls),
                pin=None if run.spec_is_pinned else _pin(run),
                reservation=reservation(self._services, run),
            )
        )
        match reply:
            case Passed():
                run.thread.extend(reply.messages)
                run.journal.clear()
                run.spec_is_pinned = True
                run.is_heard = run.is_heard or reply.is_heard
                return reply
            case Stopped(reason=reason, limit=limit):
                return self._with_answers(stopped(reason, run, limit=limit), calls)
            case Paused(woken=woken):
                await self._wake(woken)
                return Left(Phase.PAUSED_BUDGET.value, 0)
            case Spent():
                return self._with_answers(spent(reply, run), calls)
            case Unpriced():
                return self._with_answers(unpriced(run.spec, run), calls)
            case Stale():
                return Fenced()

    async def _wake(self, woken: Sequence[WakeUp]) -> None:
        if woken:
            await self._services.wakes.send(*woken)

    def _heads(self, calls: Sequence[ToolCall]) -> list[tuple[str, str]]:
        """Slot and beginning of the thread entry of each call's result."""
        return [
            (f"{self._run.iteration}:{index}", tool_result_head(self._api, call.call_id))
            for index, call in enumerate(calls)
        ]

    async def _iterate(self, passed: Passed) -> Finish | Fenced | None:
        """One request and its record; None = go on."""
        run = self._run
        steers = [user_entry(self._api, text) for text in passed.steers]
        response = await ask(self._services, run, passed.iteration, steers)
        if isinstance(response, Aborted):
            return None
        if isinstance(response, Finish | Fenced):
            return response
        if response.text:
            run.partial = response.text
        end = None if response.tool_calls else self._end_of(response)
        # Together with the response that it is about: it is never said twice, nor forgotten.
        sent_back = [user_entry(self._api, end.text)] if isinstance(end, Correction) else []
        goes_on = not isinstance(end, Finish)
        if not await self._record(passed, steers, response, sent_back, goes_on=goes_on):
            return Fenced()
        return end if isinstance(end, Finish) else None

    def _end_of(self, response: ModelResponse) -> Finish | Correction:
        end = natural_end(response.text, _ending(response), self._run)
        return self._answers.submission.end_of_answer(self._api, end)

    async def _record(
        self,
        passed: Passed,
        steers: Sequence[str],
        response: ModelResponse,
        sent_back: Sequence[str],
        *,
        goes_on: bool,
    ) -> bool:
        run, usage = self._run, response.usage or ModelUsage()
        messages = [*steers, response.entry, *sent_back]
        reply = await self._services.store.run(
            running.record_model(
                run.key,
                run.fence,
                run.operation(),
                Response(
                    iteration=passed.iteration,
                    thread_length=run.stored_length,
                    steers=len(steers),
                    phase=Phase.TOOL_CALL if response.tool_calls else Phase.MODEL_CALL,
                    messages=messages,
                    # A model may make up a name of any length.
                    tools=[call.name[:NAME_MAX_CHARS] for call in response.tool_calls],
                    partial=response.text if goes_on else None,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cached_tokens=usage.cached_tokens,
                    reasoning_tokens=usage.reasoning_tokens,
                    micro_usd=self._cost(response.usage),
                    ending=_ending(response),
                    counted_calls=sum(call.name != SUBMIT_RESULT for call in response.tool_calls),
                ),
            )
        )
        run.thread.extend(messages)
        if response.usage is not None:
            counted = len(run.thread) - len(sent_back)
            run.measured = counted, usage.input_tokens + usage.output_tokens
        run.iteration, self._fresh = passed.iteration, True
        if not isinstance(reply, RecordedResponse):
            return False
        run.calls_allowed = reply.calls_allowed
        await self._wake(reply.woken)
        return True

    def _cost(self, usage: ModelUsage | None) -> int | None:
        spec = self._run.spec
        return self._services.prices.cost(self._services.provider(spec), spec.model or "", usage)


def _pin(run: HeldRun) -> Pin:
    spec = run.spec
    # The limit of a launch is for the whole run; an agent's own counts from where it took over.
    before = run.iteration if run.ticket.request.max_iterations is None else 0
    provider = spec.provider or (spec.llm.name if spec.llm else "")
    return Pin(
        spec.digest,
        spec.json_text,
        before + spec.max_iterations,
        spec.model or "",
        provider,
        spec.max_tool_calls,
    )


def _ending(response: ModelResponse) -> Ending:
    if response.refusal is not None:
        return Ending.REFUSED
    return Ending.LENGTH if response.finish_reason == "length" else Ending.STOP


def natural_end(text: str, ending: Ending, run: HeldRun) -> Finish:
    """How a run ends whose model calls nothing more: well, unless it refused, was cut or said nothing."""
    if ending is Ending.REFUSED:
        return Finish(
            SubagentState.FAILED, ErrorClassification.CONTENT_REFUSED, text or None, "the model refused"
        )
    if ending is Ending.LENGTH:
        return Finish(
            SubagentState.INTERRUPTED,
            ErrorClassification.BUDGET_EXCEEDED,
            text or run.partial,
            "the response was cut at the model's output limit (max_tokens)",
        )
    if not text.strip():
        return Finish(
            SubagentState.FAILED,
            ErrorClassification.OUTPUT_INVALID,
            run.partial,
            "the model answered nothing",
        )
    return Finish(SubagentState.SUCCEEDED, summary=text, natural=True)
