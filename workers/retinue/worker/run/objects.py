"""Runs of foreign objects: all that Retinue knows of them is `run`, so they are run in one go."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from retinue.agents.builtin_tools.output import FittingOutput, check_output, read_answer
from retinue.agents.effective.effective import Capabilities, RunnerKind
from retinue.agents.reply import Reply, read_reply
from retinue.agents.runnable import Runnable, bind_run, runs_async
from retinue.agents.tools.tool_result import ToolResultError
from retinue.client.parent import current_parent
from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.calls.submission import accepted, refused
from retinue.worker.run.cut import AT_ONCE_S, let_go, until_done
from retinue.worker.run.ending import cut_short
from retinue.worker.run.foreign import foreign_result, start_foreign
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Finish, Outcome
from retinue.worker.run.parent import RunningCall
from retinue.worker.services import Services

_log = logging.getLogger("retinue.worker")
_ERROR_MAX_CHARS = 2_000


class ObjectRun:
    """Runs an object with `run(query, ...)`: no steering, no resuming, a cancel is a task cancel.

    Args:
        services: The process's.
        run: The run.
        agent: The object.
    """

    capabilities: ClassVar[Capabilities] = RunnerKind.OBJECT.capabilities

    def __init__(self, services: Services, run: HeldRun, agent: Runnable) -> None:
        self._services = services
        self._run = run
        self._agent = agent

    async def drive(self, *, overtaken: bool = False) -> Outcome:
        """Runs the object to its end, its deadline or a cancel."""
        del overtaken  # steers are refused for objects
        work = self._start()
        grace_s, cut = self._services.settings.cancel_grace_seconds, None
        try:
            # It cannot ask whether it is cancelled: its grace is what its task has after that.
            cut = await until_done(self._services, self._run, [work], grace_s=0)
        finally:
            if await let_go([work], within_s=grace_s if cut else AT_ONCE_S):
                _log.warning(
                    "agent.still_running run=%s agent=%s", self._run.key.run_id, self._run.spec.agent
                )
        return self._ended(work) if cut is None else cut_short(cut, self._run)

    def _start(self) -> asyncio.Task[object]:
        run, request = self._run, self._run.ticket.request
        extras = {
            "scope": run.key.tenant,
            "run_id": run.key.run_id,
            "session_id": run.record.session_id,
            "context": request.context,
            "inputs": request.inputs,
        }
        bound = bind_run(self._agent, request.goal, extras)
        inside = current_parent.set(RunningCall(self._services, run, 0))
        try:
            # The task keeps the context that it is started in.
            return start_foreign(bound, is_async=runs_async(self._agent), name=f"agent:{run.spec.agent}")
        finally:
            current_parent.reset(inside)

    def _ended(self, work: asyncio.Task[object]) -> Finish:
        run = self._run
        try:
            return self._finish(read_reply(foreign_result(work)))
        except ToolResultError as fault:
            return Finish(SubagentState.FAILED, ErrorClassification.OUTPUT_INVALID, message=str(fault))
        except Exception as fault:
            _log.info(
                "agent.failed run=%s agent=%s error=%s", run.key.run_id, run.spec.agent, type(fault).__name__
            )
            message = f"{type(fault).__name__}: {fault}"[:_ERROR_MAX_CHARS]
            return Finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR, message=message)

    def _finish(self, reply: Reply) -> Finish:
        """How it ends; one that owes an object and has none that fits cannot be told to mend it."""
        schema = self._run.spec.output_schema
        if schema is None:
            return Finish(SubagentState.SUCCEEDED, summary=reply.text, natural=True, payload=reply.payload)
        given = reply.payload
        output = read_answer(schema, reply.text) if given is None else check_output(schema, given)
        return accepted(output) if isinstance(output, FittingOutput) else refused(output, reply.text)
