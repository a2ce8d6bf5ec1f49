"""Answering the calls of a response: tools run here, delegations become children, the rest is waited for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from retinue.agents.builtin_tools.output import SUBMIT_RESULT
from retinue.contract import Phase
from retinue.store.operations import running
from retinue.store.replies import Approved, Ready, RequestState, Stale, Stopped, Suspended
from retinue.worker.calls.background import BackgroundCalls
from retinue.worker.calls.call_handler import CallHandler, CallOutcome, Waiting
from retinue.worker.calls.delegation import Delegation
from retinue.worker.calls.handoff import Handoff, TooLate
from retinue.worker.calls.human_calls import HumanCalls
from retinue.worker.calls.submission import Submission
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import CallKind, Turn, TurnCall
from retinue.worker.models import ToolCall
from retinue.worker.run.cut import AT_ONCE_S, Cut, let_go, until_done
from retinue.worker.run.ending import cut_short, stopped
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish, HandOff, Left
from retinue.worker.services import Services

_log = logging.getLogger("retinue.worker")
_RUN_HERE = (CallKind.OWN_TOOL, CallKind.APPROVAL)
"""Whose code runs on this worker, and may hang."""
_TOO_MANY_CALLS = (
    "[REFUSED] max_tool_calls: this run has made the {limit} tool calls that it may make (limit: {limit}). "
    "Answer with what you have."
)
_CALLS_ARE_SPENT = (
    "[REFUSED] tool_calls: the budget of tool calls of this run, or of one above it, is spent. "
    "Answer with what you have."
)
_SHOWN_FIRST = (Phase.WAITING_INPUT, Phase.WAITING_APPROVAL, Phase.WAITING_CHILDREN)
"""What a run that waits for several things is said to wait for: a human before its children."""


class CallAnswers:
    """Sees that each call of the last response gets exactly one result.

    Args:
        services: The process's.
        run: The run.

    Attributes:
        submission: Judges what is to be the run's result.
    """

    def __init__(self, services: Services, run: HeldRun) -> None:
        self._services = services
        self._run = run
        self._tools = ToolCalls(services, run)
        self._delegation = Delegation(services, run, self._tools)
        self.submission = Submission(run, self._tools)
        human = HumanCalls(services, run, self._tools)
        self._handlers: dict[CallKind, CallHandler] = {
            CallKind.OWN_TOOL: self._tools,
            CallKind.APPROVAL: human,
            CallKind.INPUT: human,
            CallKind.DELEGATION: self._delegation,
            CallKind.BACKGROUND: BackgroundCalls(services, run, self._tools),
            CallKind.SUBMISSION: self.submission,
            CallKind.HANDOFF: Handoff(services, run, self._tools),
            CallKind.TOO_LATE: TooLate(self._tools),
            CallKind.UNKNOWN: self._tools,
        }

    async def answer(
        self, calls: Sequence[ToolCall], *, fresh: bool
    ) -> Left | HandOff | Finish | Fenced | None:
        """Runs what can run here and waits, away from the worker, for the rest.

        Args:
            calls: All calls of the last response, in its order.
            fresh: This attempt recorded the response; else an earlier one may have started its tools.

        Returns:
            None = all calls are answered: on to the boundary.
        """
        before = self._run.tools_used - len(self._run.journal)
        if not await self._refuse_beyond_limit(calls, before):
            return Fenced()
        turn = Turn.of(calls, self._run.spec, self._delegation.thread_of)
        # A run leaves a worker for a wait only with all that it has begun answered.
        lost = not fresh and not self._run.record.follows_suspension
        parallel = self._services.settings.parallel_calls
        while batch := turn.next_batch(self._answered(turn), parallel=parallel):
            waiting = await self._start(batch, lost=lost)
            if isinstance(waiting, HandOff | Finish | Fenced):
                return waiting
            # What comes later in a turn starts only once this is answered: no earlier attempt got so far.
            lost = False
            if waiting:
                left = await self._suspend(waiting)
                if left is not None:
                    return left
        self._run.tools_used = before + len(calls)
        return None

    def _answered(self, turn: Turn) -> set[int]:
        return {asked.index for asked in turn.calls if self._slot(asked.index) in self._run.journal}

    async def _refuse_beyond_limit(self, calls: Sequence[ToolCall], before: int) -> bool:
        """Answers the calls that the run may not make any more; False = the attempt is fenced."""
        numbered = list(enumerate(calls))
        limit, allowed = self._run.spec.max_tool_calls, self._run.calls_allowed
        if limit is not None:
            text = _TOO_MANY_CALLS.format(limit=limit)
            if not await self._refuse(numbered[max(0, limit - before) :], text):
                return False
        if allowed is not None:
            counted = [(index, call) for index, call in numbered if call.name != SUBMIT_RESULT]
            return await self._refuse(counted[allowed:], _CALLS_ARE_SPENT)
        return True

    async def _refuse(self, calls: Sequence[tuple[int, ToolCall]], text: str) -> bool:
        for index, call in calls:
            if call.name != SUBMIT_RESULT and self._slot(index) not in self._run.journal:
                if not await self._tools.record(index, call.name, text, ok=False, started=time.monotonic()):
                    return False
                self._run.journal[self._slot(index)] = ""
        return True

    async def _start(
        self, batch: Sequence[TurnCall], *, lost: bool
    ) -> dict[int, Waiting] | HandOff | Finish | Fenced:
        """Starts calls side by side; what is left to wait for, by the call's place."""
        tasks = {asked.index: asyncio.create_task(self._start_one(asked, lost=lost)) for asked in batch}
        tools = {asked.index: asked.call.name for asked in batch if asked.kind in _RUN_HERE}
        cut = await self._wait_for(tools, tasks)
        if cut is not None:
            return cut
        outcomes = {index: task.result() for index, task in tasks.items()}
        over = [outcome for outcome in outcomes.values() if isinstance(outcome, HandOff | Finish | Fenced)]
        if over:
            return next((outcome for outcome in over if isinstance(outcome, Fenced)), over[0])
        waiting = {index: outcome for index, outcome in outcomes.items() if isinstance(outcome, Waiting)}
        self._note_answered(set(outcomes) - set(waiting))
        return waiting

    async def _start_one(self, asked: TurnCall, *, lost: bool) -> CallOutcome:
        outcome = await self._handlers[asked.kind].start(asked, lost=lost)
        if isinstance(outcome, Fenced):
            # The other calls work for nothing, and may take for ever.
            self._run.lose()
        return outcome

    def _note_answered(self, indexes: Collection[int]) -> None:
        self._run.journal.update(dict.fromkeys(map(self._slot, indexes), ""))

    async def _wait_for(
        self, tools: dict[int, str], tasks: dict[int, asyncio.Task[CallOutcome]]
    ) -> Finish | Fenced | None:
        """Waits for all tasks; how the run ends that cannot wait any longer, None = all are done.

        Args:
            tools: Names of the tools among them.
        """
        grace_s = self._services.settings.cancel_grace_seconds
        cut, unwind_s, still = None, AT_ONCE_S, set[str]()
        try:
            cut = await until_done(self._services, self._run, tasks.values(), grace_s=grace_s)
            # After a cancel they have had their grace; a deadline comes without a warning.
            unwind_s = grace_s if cut is Cut.DEADLINE else min(grace_s, AT_ONCE_S)
        finally:
            late = [index for index in tools if not tasks[index].done()]
            stuck = await let_go(tasks.values(), within_s=unwind_s)
            still = {tools[i] for i in late if tasks[i] in stuck or self._tools.runs_in_thread(tools[i])}
            for name in still:
                _log.warning("tool.still_running run=%s tool=%s", self._run.key.run_id, name)
        if cut is not None:
            finish = cut_short(cut, self._run)
            if isinstance(finish, Fenced):
                return finish
            message = "; ".join(filter(None, (finish.message, *(f"still running: {name}" for name in still))))
            return replace(finish, message=message or None)
        for task in tasks.values():
            # The failure itself, and not what it did to the others.
            if not task.cancelled() and (fault := task.exception()):
                raise fault
        return None

    async def _suspend(self, waiting: Mapping[int, Waiting]) -> Left | Finish | Fenced | None:
        """Leaves the worker; None = all was answered meanwhile, or some of it may be run."""
        run = self._run
        phase = min((each.phase for each in waiting.values()), key=_SHOWN_FIRST.index)
        with run.releasing():
            reply = await self._services.store.run(
                running.suspend(
                    run.key,
                    run.fence,
                    run.operation(),
                    phase=phase,
                    entries=[e for index, each in waiting.items() for e in each.entries(self._slot(index))],
                    asking_ms=self._services.settings.approval_ttl_seconds * 1000,
                )
            )
        match reply:
            case Suspended(open=count, wakeup=wakeup):
                if wakeup is not None:
                    await self._services.wakes.send(wakeup)
                return Left(phase.value, count)
            case Stopped(reason=reason):
                return stopped(reason, run)
            case Stale():
                return Fenced()
            case Ready():
                self._note_answered({index for index, each in waiting.items() if not each.children})
                return None
            case Approved(slots=slots):
                run.decisions.update(dict.fromkeys(slots, RequestState.APPROVED))
                return None

    def _slot(self, index: int) -> str:
        return f"{self._run.iteration}:{index}"
