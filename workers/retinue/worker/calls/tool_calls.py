"""Running the tools that a response asks for: each call gets exactly one result, in the journal."""

from __future__ import annotations

import logging
import time

from retinue.agents import HookPoint, ToolContext, ToolUsed, current_tool_context
from retinue.agents.builtin_tools.roster import RUN_AGENT, SEND_MESSAGE
from retinue.agents.effective.effective import ToolSpec
from retinue.agents.tools.arguments import ToolArgumentError
from retinue.agents.tools.json_arguments import declared_arguments, json_arguments
from retinue.agents.tools.tool import AnyTool
from retinue.agents.tools.tool_result import ToolResultError, result_text
from retinue.client.launching.faults import refusal
from retinue.client.parent import current_parent
from retinue.contract import NAME_MAX_CHARS
from retinue.store.operations import running
from retinue.store.operations.launching import LimitReached
from retinue.store.replies import Stale
from retinue.worker.calls.call_handler import Answered
from retinue.worker.calls.progress import ProgressLine
from retinue.worker.calls.turn import TurnCall
from retinue.worker.crash_points import mortal
from retinue.worker.models import ToolCall
from retinue.worker.network.network_tools import NetworkToolError
from retinue.worker.process.hints import cancel_stands
from retinue.worker.run.foreign import call_foreign
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced
from retinue.worker.run.parent import RunningCall
from retinue.worker.services import Services

_log = logging.getLogger("retinue.worker")
_ERROR_MAX_CHARS = 2_000
OUTCOME_UNKNOWN = (
    "[OUTCOME UNKNOWN] The worker stopped while this call was running. It may or may not have taken effect; "
    "check before you repeat it."
)


class ToolCalls:
    """Runs the tool calls of one run.

    Args:
        services: The process's.
        run: The run.
    """

    def __init__(self, services: Services, run: HeldRun) -> None:
        self._services = services
        self._run = run
        self._call = mortal("tool", self._result)

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | Fenced:
        """Runs one call and records its result.

        Args:
            asked: The call.
            lost: An earlier attempt had started it: it runs again only if its tool allows that.
        """
        started = time.monotonic()
        name, ok, text = await self._call(asked.index, asked.call, lost=lost)
        seconds = time.monotonic() - started
        if not await self.record(asked.index, name, text, ok=ok, started=started):
            return Fenced()
        await self._services.hooks.tell(
            HookPoint.TOOL,
            ToolUsed,
            self._run,
            tool=name,
            iteration=self._run.iteration,
            call_index=asked.index,
            ok=ok,
            duration_seconds=seconds,
        )
        return Answered()

    def runs_in_thread(self, name: str) -> bool:
        """Whether a call of the tool of this name goes on when nobody waits for it any more."""
        spec = self._run.spec.find_tool(name)
        tool = self._services.registry.tools.get(spec.name) if spec else None
        return tool is not None and not tool.is_async

    async def record(self, index: int, tool: str, text: str, *, ok: bool, started: float) -> bool:
        """Writes a call's result into the journal; False = the attempt is fenced."""
        run = self._run
        bounded = result_text(text, max_bytes=self._services.settings.tool_result_max_bytes)
        reply = await self._services.store.run(
            running.record_tool_result(
                run.key,
                run.fence,
                iteration=run.iteration,
                index=index,
                value=bounded,
                tool=tool,
                ok=ok,
                duration_ms=round((time.monotonic() - started) * 1000),
            )
        )
        return not isinstance(reply, Stale)

    async def _result(self, index: int, call: ToolCall, *, lost: bool) -> tuple[str, bool, str]:
        spec = self._run.spec.find_tool(call.name)
        if spec is None:
            return call.name[:NAME_MAX_CHARS], False, self._not_there(call.name)
        if spec.kind in ("remote", "mcp"):
            ok, text = await self._elsewhere(spec, call, lost=lost)
            return spec.name, ok, text
        tool = self._services.registry.tools.get(spec.name)
        if tool is None or not self._run.grant.allows(spec.name, spec.toolset):
            # The pinned spec names it; the code on this worker, or a grant up the tree, does not.
            return spec.name, False, f"[ERROR] The tool {spec.name!r} is not available."
        if lost and not tool.runs_again:
            return spec.name, False, OUTCOME_UNKNOWN
        try:
            arguments = tool.check(declared_arguments(spec.parameters, tool, call.arguments))
        except ToolArgumentError as fault:
            return spec.name, False, f"[ERROR] {fault}"
        ok, text = await self._run_tool(index, tool, arguments)
        return spec.name, ok, text

    def _not_there(self, name: str) -> str:
        """What the model is told of a tool that its run does not have."""
        offered, record = self._run.spec, self._run.record
        is_delegation = name in (RUN_AGENT, SEND_MESSAGE) and offered.grant.allows_delegation(name)
        if is_delegation and record.depth >= record.max_depth:
            return f"[REFUSED] {refusal(LimitReached('max_depth', record.max_depth, None))}"
        names = [tool.api_name for tool in offered.tools] + [tool.name for tool in offered.built_in_tools]
        return f"[ERROR] There is no tool {name[:80]!r}. Tools: {', '.join(names) or 'none'}."

    async def _elsewhere(self, spec: ToolSpec, call: ToolCall, *, lost: bool) -> tuple[bool, str]:
        """A call that another server answers."""
        run = self._run
        if not run.grant.allows(spec.name, spec.toolset):
            return False, f"[ERROR] The tool {spec.name!r} is not available."
        if lost and not (spec.read_only or spec.idempotent):
            return False, OUTCOME_UNKNOWN

        async def go_on() -> bool:
            return not (run.is_lost or await cancel_stands(self._services.store, run.key))

        try:
            arguments = json_arguments(spec.parameters, call.arguments)
            return True, await self._services.network.call(spec, arguments, go_on=go_on)
        except (ToolArgumentError, NetworkToolError) as fault:
            _log.info("tool.failed run=%s tool=%s error=%s", run.key.run_id, spec.name, type(fault).__name__)
            return False, f"[ERROR] {fault}"
        except Exception as fault:
            _log.error(
                "tool.crashed run=%s tool=%s error=%s", run.key.run_id, spec.name, type(fault).__name__
            )
            return False, f"[ERROR] The call failed on this worker ({type(fault).__name__})."

    async def _run_tool(self, index: int, tool: AnyTool, arguments: dict[str, object]) -> tuple[bool, str]:
        # One for all that the call launches: its children are numbered through, by whichever way they come.
        running_call = RunningCall(self._services, self._run, index)
        context = self._context(index, running_call)
        parent = current_parent.set(running_call)
        inside = current_tool_context.set(context)
        try:
            bound = tool.bind(arguments, context)
            value = await call_foreign(bound, is_async=tool.is_async, name=f"tool:{tool.api_name}")
            return True, result_text(value)
        except ToolResultError as fault:
            return False, f"[ERROR] {fault}"
        except Exception as fault:
            # The model reads the message; a log must not, for it may quote what the user wrote.
            _log.info(
                "tool.failed run=%s tool=%s error=%s", self._run.key.run_id, tool.name, type(fault).__name__
            )
            return False, f"[ERROR] {type(fault).__name__}: {fault}"[:_ERROR_MAX_CHARS]
        finally:
            current_tool_context.reset(inside)
            current_parent.reset(parent)

    def _context(self, index: int, running_call: RunningCall) -> ToolContext:
        run = self._run
        return ToolContext(
            run_id=run.key.run_id,
            tenant=run.key.tenant,
            session_id=run.record.session_id,
            agent=run.spec.agent,
            iteration=run.iteration,
            call_index=index,
            working_directory=run.working_directory,
            report_progress=ProgressLine(self._services.store.store, run, index).report,
            is_cancelled=lambda: run.should_stop,
            lifecycle=running_call.facade,
        )
