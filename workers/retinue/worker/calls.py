"""Answering the calls of a response: tools run here, delegations become children, the rest is waited for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retinue.contract import ErrorClassification, Phase, SubagentState
from retinue.store import running
from retinue.store.replies import Ready, Stale, Stopped, Suspended
from retinue.worker.cut import AT_ONCE_S, Cut, let_go, until_done
from retinue.worker.delegation import Delegation
from retinue.worker.held import HeldRun
from retinue.worker.models import ToolCall
from retinue.worker.outcome import Fenced, Finish, Left
from retinue.worker.services import Services
from retinue.worker.tool_calls import ToolCalls

_log = logging.getLogger("retinue.worker")


class CallAnswers:
    """Sees that each call of the last response gets exactly one result.

    Args:
        services: The process's.
        run: The run.
    """

    def __init__(self, services: Services, run: HeldRun) -> None:
        self._services = services
        self._run = run
        self._tools = ToolCalls(services, run)
        self._delegation = Delegation(services, run, self._tools)

    async def answer(self, calls: Sequence[ToolCall], *, fresh: bool) -> Left | Finish | Fenced | None:
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
        while True:
            open_calls = {
                index: call for index, call in enumerate(calls) if self._slot(index) not in self._run.journal
            }
            waiting = await self._start(open_calls, fresh=fresh)
            if isinstance(waiting, Finish | Fenced):
                return waiting
            if not waiting:
                self._run.tools_used = before + len(calls)
                return None
            reply = await self._suspend(waiting)
            if not isinstance(reply, Ready):
                return reply
            # Answered meanwhile. Messages that had to wait for their turn may remain.
            self._run.journal.update(dict.fromkeys(map(self._slot, waiting), ""))

    async def _refuse_beyond_limit(self, calls: Sequence[ToolCall], before: int) -> bool:
        """Answers the calls that the run may not make any more; False = the attempt is fenced."""
        limit = self._run.spec.max_tool_calls
        if limit is None:
            return True
        for index, call in list(enumerate(calls))[max(0, limit - before) :]:
            if self._slot(index) not in self._run.journal:
                text = f"[REFUSED] This run may make {limit} tool calls, and has. Answer with what you have."
                if not await self._tools.record(index, call.name, text, ok=False, started=time.monotonic()):
                    return False
                self._run.journal[self._slot(index)] = ""
        return True

    async def _start(self, calls: dict[int, ToolCall], *, fresh: bool) -> dict[int, str] | Finish | Fenced:
        """Starts the calls side by side; the children that are left to wait for, by call."""
        built_in = {tool.name for tool in self._run.spec.built_in_tools}
        delegated = {i: call for i, call in calls.items() if call.name in built_in}
        first = self._first_of_each_thread(delegated)
        own = {i: call for i, call in calls.items() if i not in delegated}
        children = {
            i: asyncio.create_task(self._delegation.start(i, call))
            for i, call in delegated.items()
            if i in first
        }
        answers = {
            i: asyncio.create_task(self._tools.answer(i, call, lost=not fresh)) for i, call in own.items()
        }
        cut = await self._wait_for({i: calls[i].name for i in answers}, {**children, **answers})
        if cut is not None:
            return cut
        if not all(task.result() for task in answers.values()):
            return Fenced()
        waiting: dict[int, str] = {}
        for index, task in children.items():
            child = task.result()
            if isinstance(child, Fenced):
                return child
            if child is not None:
                waiting[index] = child
        answered = set(own) | (first - set(waiting))
        self._run.journal.update(dict.fromkeys(map(self._slot, answered), ""))
        return (
            waiting
            if waiting or first == set(delegated)
            else await self._start({i: call for i, call in delegated.items() if i not in first}, fresh=fresh)
        )

    async def _wait_for(self, tools: dict[int, str], tasks: dict[int, asyncio.Task[Any]]) -> Finish | None:
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
            finish = stopped(cut.value, self._run)
            message = "; ".join(filter(None, (finish.message, *(f"still running: {name}" for name in still))))
            return replace(finish, message=message or None)
        for task in tasks.values():
            # The failure itself, and not what it did to the others.
            if not task.cancelled() and (fault := task.exception()):
                raise fault
        return None

    def _first_of_each_thread(self, calls: dict[int, ToolCall]) -> set[int]:
        seen: set[str] = set()
        first: set[int] = set()
        for index, call in calls.items():
            thread = self._delegation.thread_of(call)
            if thread is None or thread not in seen:
                first.add(index)
            if thread is not None:
                seen.add(thread)
        return first

    async def _suspend(self, waiting: dict[int, str]) -> Left | Finish | Fenced | Ready:
        run = self._run
        reply = await self._services.store.run(
            running.suspend(
                run.key,
                run.fence,
                run.operation(),
                phase=Phase.WAITING_CHILDREN,
                entries=[(self._slot(index), f"child:{child}") for index, child in waiting.items()],
            )
        )
        match reply:
            case Suspended(open=count):
                return Left(Phase.WAITING_CHILDREN.value, count)
            case Stopped(reason=reason):
                return stopped(reason, run)
            case Stale():
                return Fenced()
            case Ready():
                return reply

    def _slot(self, index: int) -> str:
        return f"{self._run.iteration}:{index}"


def stopped(reason: str, run: HeldRun) -> Finish:
    """How a run ends that the store does not let pass."""
    match reason:
        case "CANCEL":
            return Finish(SubagentState.CANCELLED, None, run.partial)
        case "INTERRUPT":
            state, why = ErrorClassification.INTERRUPT_REQUESTED, "an interrupt was requested"
        case "DEADLINE":
            state, why = ErrorClassification.DEADLINE_EXCEEDED, "the deadline passed"
        case _:
            limit = run.record.max_iterations
            state, why = (
                ErrorClassification.MAX_ITERATIONS,
                f"the limit of {limit} model requests was reached",
            )
    return Finish(SubagentState.INTERRUPTED, state, run.partial, why)
