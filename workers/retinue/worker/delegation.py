"""The calls with which a model delegates: each becomes a child run whose end answers the call."""

from __future__ import annotations

import hashlib
import time

from retinue.agents.roster import (
    DelegationCall,
    ListAgentsCall,
    RefusedCall,
    RunAgentCall,
    SendMessageCall,
    read_delegation,
)
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.client.launch_faults import MAY_BE_NEW, refusal
from retinue.client.planning import Plan
from retinue.contract import SubagentLaunchRequest, SubagentLifecycleError, child_run_id
from retinue.store import launching
from retinue.store.call import unexpected
from retinue.store.launching import Launched, Parent, ParentRefused, ThreadBusy
from retinue.worker.held import HeldRun
from retinue.worker.models import ToolCall
from retinue.worker.outcome import Fenced
from retinue.worker.parent import binding_of
from retinue.worker.services import Services
from retinue.worker.tool_calls import ToolCalls


class Delegation:
    """Turns delegation calls of one run into children.

    Args:
        services: The process's.
        run: The parent.
        tools: Records what needs no child: refusals, and the roster.
    """

    def __init__(self, services: Services, run: HeldRun, tools: ToolCalls) -> None:
        self._services = services
        self._run = run
        self._tools = tools

    def thread_of(self, call: ToolCall) -> str | None:
        """The thread that a call writes to, where others may write to it too; None = one of its own.

        Messages to the same recipient share a thread, so they must go one after the other.
        """
        read = self._read(call)
        return self._pair_thread(read.recipient) if isinstance(read, SendMessageCall) else None

    async def start(self, index: int, call: ToolCall) -> str | Fenced | None:
        """Launches the child of one call.

        Returns:
            The child's id, to be waited for; None = the call is answered already; Fenced.
        """
        started = time.monotonic()
        read = self._read(call)
        if isinstance(read, ListAgentsCall | RefusedCall):
            ok = isinstance(read, ListAgentsCall)
            return await self._answered(index, call, read.text, ok=ok, started=started)
        try:
            plan = await self._plan(index, call, read)
        except SubagentLifecycleError as refused:
            return await self._answered(index, call, f"[REFUSED] {refused}", ok=False, started=started)
        run = self._run
        reply = await self._services.store.run(
            launching.launch(
                run.key.tenant,
                run.record.session_id,
                [plan.new_run],
                parent=Parent(run.key.run_id, run.fence.epoch, run.fence.token, run.iteration),
                max_tree_children=self._services.settings.max_tree_children,
                session_ttl_s=plan.session_ttl_s,
            )
        )
        match reply:
            case Launched(runs=(child,)):
                return None if child.already_answered else child.run_id
            case ParentRefused(reason="STALE" | "ITERATION"):
                return Fenced()
            case Launched():
                raise unexpected("launch", [])
            case ThreadBusy():
                text = f"[REFUSED] {plan.new_run.agent} is still working on an earlier message."
                return await self._answered(index, call, text, ok=False, started=started)
            case _:
                text = f"[REFUSED] {refusal(reply)}"
                return await self._answered(index, call, text, ok=False, started=started)

    def _read(self, call: ToolCall) -> DelegationCall:
        return read_delegation(call.name, call.arguments, self._run.spec.roster)

    async def _answered(
        self, index: int, call: ToolCall, text: str, *, ok: bool, started: float
    ) -> Fenced | None:
        kept = await self._tools.record(index, call.name, text, ok=ok, started=started)
        return None if kept else Fenced()

    async def _plan(self, index: int, call: ToolCall, read: RunAgentCall | SendMessageCall) -> Plan:
        run = self._run
        if isinstance(read, SendMessageCall):
            thread = self._pair_thread(read.recipient)
            keep_s = int(self._services.settings.conversation_ttl_seconds)
            # The members of a group share the inputs of whoever addresses it.
            inputs = run.ticket.request.inputs
            request = SubagentLaunchRequest.parse(agent=read.recipient, goal=read.message, inputs=inputs)
        else:
            thread, keep_s = None, None
            request = SubagentLaunchRequest.parse(agent=read.agent, goal=read.task)
        try:
            snapshot = await self._services.catalogue.snapshot()
            return self._planned(request, snapshot, index, call, thread, keep_s)
        except SubagentLifecycleError as fault:
            if fault.code not in MAY_BE_NEW:
                raise
        snapshot = await self._services.catalogue.snapshot(fresh=True)
        return self._planned(request, snapshot, index, call, thread, keep_s)

    def _planned(
        self,
        request: SubagentLaunchRequest,
        snapshot: CatalogueSnapshot,
        index: int,
        call: ToolCall,
        thread: str | None,
        keep_s: int | None,
    ) -> Plan:
        run = self._run
        return self._services.planner.plan(
            request,
            snapshot,
            tenant=run.key.tenant,
            session_id=run.record.session_id,
            run_id=child_run_id(run.key.run_id, run.iteration, index, 0),
            parent=binding_of(run, index),
            slot=f"{run.iteration}:{index}",
            slot_tool=call.name,
            thread_id=thread,
            thread_ttl_s=keep_s,
            by_model=True,
        )

    def _pair_thread(self, recipient: str) -> str:
        # One thread per ordered pair for the life of the caller's own thread.
        pair = f"{self._run.record.thread_id}\0{self._run.spec.agent}\0{recipient}"
        return "t" + hashlib.sha256(pair.encode()).hexdigest()[:31]
