"""Runs of foreign objects: all that Retinue knows of them is `run`, so they are run in one go."""

from __future__ import annotations

import asyncio
import logging

from retinue.agents.runnable import Runnable, bind_run, reply_text, runs_async
from retinue.agents.tool_result import ToolResultError
from retinue.client.parent import current_parent
from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.calls import stopped
from retinue.worker.cut import AT_ONCE_S, let_go, until_done
from retinue.worker.foreign import call_foreign
from retinue.worker.held import HeldRun
from retinue.worker.outcome import Finish, Outcome
from retinue.worker.parent import RunningCall
from retinue.worker.services import Services

_log = logging.getLogger("retinue.worker")
_ERROR_MAX_CHARS = 2_000


class ObjectRun:
    """Runs an object with `run(query, ...)`: no steering, no resuming, a cancel is a task cancel.

    Args:
        services: The process's.
        run: The run.
        agent: The object.
        restartable: Whether it may be started anew after a crash.
    """

    def __init__(self, services: Services, run: HeldRun, agent: Runnable, *, restartable: bool) -> None:
        self._services = services
        self._run = run
        self._agent = agent
        self._restartable = restartable

    async def drive(self, *, overtaken: bool = False) -> Outcome:
        """Runs the object to its end, its deadline or a cancel."""
        del overtaken  # steers are refused for objects
        if self._run.was_attempted_before and not self._restartable:
            return Finish(
                SubagentState.FAILED,
                ErrorClassification.WORKER_LOST,
                message="its worker was lost, and the agent is not restartable",
            )
        work = asyncio.create_task(self._call())
        grace_s, cut = self._services.settings.cancel_grace_seconds, None
        try:
            # It cannot ask whether it is cancelled: its grace is what its task has after that.
            cut = await until_done(self._services, self._run, [work], grace_s=0)
        finally:
            if await let_go([work], within_s=grace_s if cut else AT_ONCE_S):
                _log.warning(
                    "agent.still_running run=%s agent=%s", self._run.key.run_id, self._run.spec.agent
                )
        return work.result() if cut is None else stopped(cut.value, self._run)

    async def _call(self) -> Finish:
        run, request = self._run, self._run.ticket.request
        extras = {
            "scope": run.key.tenant,
            "run_id": run.key.run_id,
            "session_id": run.record.session_id,
            "agent_depth": run.record.depth,
            "context": request.context,
            "inputs": request.inputs,
        }
        bound = bind_run(self._agent, request.goal, extras)
        inside = current_parent.set(RunningCall(self._services, run, 0))
        try:
            name = f"agent:{run.spec.agent}"
            value = await call_foreign(bound, is_async=runs_async(self._agent), name=name)
            return Finish(SubagentState.SUCCEEDED, summary=reply_text(value), natural=True)
        except ToolResultError as fault:
            return Finish(SubagentState.FAILED, ErrorClassification.OUTPUT_INVALID, message=str(fault))
        except Exception as fault:
            _log.info(
                "agent.failed run=%s agent=%s error=%s", run.key.run_id, run.spec.agent, type(fault).__name__
            )
            message = f"{type(fault).__name__}: {fault}"[:_ERROR_MAX_CHARS]
            return Finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR, message=message)
        finally:
            current_parent.reset(inside)
