"""The calls that somebody else decides: tools that need an approval, and what a human or a parent answers.

How far such a call came stands in the store: what is asked, approved and used up survives every process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

from retinue.agents.builtin_tools.asking import ASK_PARENT, QUESTION, asking_tools
from retinue.agents.effective.effective import ToolSpec
from retinue.agents.tools.arguments import ToolArgumentError, parse_arguments
from retinue.agents.tools.json_arguments import declared_arguments, json_arguments
from retinue.agents.tools.tool import AnyTool
from retinue.contract import (
    INPUTS_MAX_BYTES,
    Phase,
    RequestKind,
    SubagentLifecycleError,
    canonical_json,
)
from retinue.contract.canonical import json_object
from retinue.store.operations import asking
from retinue.store.operations.asking import Asked
from retinue.store.replies import Begun, NotApproved, RequestState, Stale, Stopped, UsedBefore
from retinue.worker.calls.call_handler import Answered, CallOutcome, Waiting
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import CallKind, TurnCall
from retinue.worker.models import ToolCall
from retinue.worker.run.ending import stopped
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced
from retinue.worker.services import Services

_PHASES: Final = {
    RequestKind.APPROVAL: Phase.WAITING_APPROVAL,
    RequestKind.INPUT: Phase.WAITING_INPUT,
}
_shown: Final = json_object(max_bytes=INPUTS_MAX_BYTES)
_HIDDEN: Final = "[redacted]"
_NOT_APPROVED = "[DENIED] This call was not run: nobody approved it with these arguments."


class HumanCalls:
    """Asks about calls, and runs those that were approved.

    Args:
        services: The process's.
        run: The run.
        tools: Run what was approved, and record what needs no human: refusals.
    """

    def __init__(self, services: Services, run: HeldRun, tools: ToolCalls) -> None:
        self._services = services
        self._run = run
        self._tools = tools

    async def start(self, asked: TurnCall, *, lost: bool) -> CallOutcome:
        """Waits for a human, or runs what one approved; a call that could not be run is not asked about."""
        del lost  # the store tells how far an earlier attempt came
        started = time.monotonic()
        tool = self._built_in(asked.call.name) or self._run.spec.find_tool(asked.call.name)
        name = tool.name if tool else asked.call.name
        state = self._run.decisions.get(self._slot(asked))
        try:
            if tool is None:
                raise ToolArgumentError(f"The tool {name!r} is not available.")
            question = self._question(asked, tool)
            if state is None:
                self._check(asked.call, tool)
        except ToolArgumentError as fault:
            return await self._recorded(asked, name, f"[ERROR] {fault}", started)
        if state in (RequestState.APPROVED, RequestState.USED):
            return await self._run_approved(asked, question, started)
        return Waiting(_PHASES[question.kind], question)

    async def _run_approved(self, asked: TurnCall, question: Asked, started: float) -> CallOutcome:
        run = self._run
        reply = await self._services.store.run(
            asking.begin_approved(
                run.key,
                run.fence,
                run.operation(),
                slot=self._slot(asked),
                argument_hash=question.argument_hash,
            )
        )
        match reply:
            case Begun():
                return await self._tools.start(asked, lost=False)
            case UsedBefore():
                return await self._tools.start(asked, lost=True)
            case NotApproved():
                return await self._recorded(asked, question.tool, _NOT_APPROVED, started)
            case Stopped(reason=reason):
                return stopped(reason, run)
            case Stale():
                return Fenced()

    async def _recorded(self, asked: TurnCall, name: str, text: str, started: float) -> Answered | Fenced:
        kept = await self._tools.record(asked.index, name, text, ok=False, started=started)
        return Answered() if kept else Fenced()

    def _question(self, asked: TurnCall, tool: ToolSpec) -> Asked:
        """What a human is asked: the call as the model wrote it, with the defaults that a document declares.

        Raises:
            ToolArgumentError: its arguments are none, or cannot be shown to anybody.
        """
        parsed = self._arguments(asked.call, tool)
        try:
            arguments = cast("dict[str, JsonValue]", _shown("arguments", parsed))
        except SubagentLifecycleError as fault:
            text = f"The call was not run: its argument object {fault.message} (limit: {fault.limit})."
            raise ToolArgumentError(text) from None
        kind = RequestKind.INPUT if asked.kind is CallKind.INPUT else RequestKind.APPROVAL
        digest = hashlib.sha256(canonical_json(arguments).encode()).hexdigest()
        function = self._function(tool)
        hidden = dict.fromkeys(function.redact if function else (), _HIDDEN)
        shown = {name: hidden.get(name, value) for name, value in arguments.items()}
        to_parent = tool.name == ASK_PARENT and self._built_in(tool.name) is not None
        return Asked(kind, tool.name, asked.call.call_id, shown, digest, to_parent)

    def _arguments(self, call: ToolCall, tool: ToolSpec) -> Mapping[str, object]:
        if tool.kind != "server":
            return json_arguments(tool.parameters, call.arguments)
        function = self._function(tool)
        if function is None:  # what was asked before waits on, also on a worker that lacks the tool
            return parse_arguments(call.arguments)
        return declared_arguments(tool.parameters, function, call.arguments)

    def _function(self, tool: ToolSpec) -> AnyTool | None:
        return self._services.registry.tools.get(tool.name) if tool.kind == "server" else None

    def _check(self, call: ToolCall, tool: ToolSpec) -> None:
        """Refuses a call that would fail after all: nobody is to be asked in vain.

        Raises:
            ToolArgumentError: says why, for the model.
        """
        if self._built_in(tool.name):
            return self._check_question(call, tool)
        function = self._function(tool)
        is_here = function is not None or tool.kind != "server"
        if not is_here or not self._run.grant.allows(tool.name, tool.toolset):
            raise ToolArgumentError(f"The tool {tool.name!r} is not available.")
        if function is not None:
            function.check(self._arguments(call, tool))

    def _check_question(self, call: ToolCall, tool: ToolSpec) -> None:
        if not self._run.grant.allows_delegation(tool.name):
            raise ToolArgumentError(f"The tool {tool.name!r} is not available.")
        if not str(self._arguments(call, tool)[QUESTION]).strip():
            raise ToolArgumentError(f"The call was not run: {QUESTION!r} must be a text that is not blank.")

    def _built_in(self, name: str) -> ToolSpec | None:
        """One of the tools with which the model asks, if the spec has it."""
        spec = self._run.spec
        for tool in asking_tools(user=spec.ask_user, parent=spec.ask_parent):
            if tool.name == name:
                return ToolSpec(
                    name=name,
                    api_name=name,
                    toolset=name,
                    description=tool.description,
                    parameters=dict(tool.parameters),
                    kind="client",
                )
        return None

    def _slot(self, asked: TurnCall) -> str:
        return f"{self._run.iteration}:{asked.index}"
