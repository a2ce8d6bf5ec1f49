"""The calls with which a model delegates: each becomes a child run whose end answers the call."""

from __future__ import annotations

import time

from retinue.agents import HookPoint, RunDelegated
from retinue.agents.builtin_tools.roster import (
    DelegationCall,
    HandoffCall,
    ListAgentsCall,
    RefusedCall,
    RunAgentCall,
    SendMessageCall,
    read_delegation,
)
from retinue.agents.registry.entry import RosterEntry
from retinue.broker.catalogue import CatalogueSnapshot
from retinue.client.launching.faults import MAY_BE_NEW, refusal
from retinue.client.launching.planning import Plan
from retinue.client.launching.ticket import JoinedThread
from retinue.contract import (
    Phase,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    canonical_json,
    child_run_id,
)
from retinue.store.call import ScriptCall, unexpected
from retinue.store.operations import launching, reading
from retinue.store.operations.launching import (
    Launched,
    LaunchReply,
    LimitReached,
    Parent,
    ParentRefused,
    Rounds,
    ThreadBusy,
)
from retinue.worker.calls.call_handler import Answered, Waiting
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import BACKGROUND_LANE, TurnCall
from retinue.worker.models import ToolCall
from retinue.worker.run.group import beyond_limit, pair_thread, place_below, waits_for
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish
from retinue.worker.run.parent import binding_of
from retinue.worker.services import Services

_CIRCULAR = (
    "[REFUSED] {name} waits for your answer to its message: a message back would wait for itself. "
    "Put what you want to say or ask into your answer."
)
_BUSY = "[REFUSED] {name} is still working on an earlier message. Go on without it, or ask someone else."


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
        if isinstance(read, RunAgentCall) and read.background:
            return BACKGROUND_LANE
        return pair_thread(self._run, read.recipient) if isinstance(read, SendMessageCall) else None

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | Waiting | Finish | Fenced:
        """Launches the child of one call; after a crash it finds the one that was launched."""
        del lost
        started = time.monotonic()
        index, call, read = asked.index, asked.call, self._read(asked.call)
        match read:
            case RunAgentCall() | SendMessageCall():
                pass
            case ListAgentsCall(text=text):
                return await self._answered(index, call, text, ok=True, started=started)
            case RefusedCall(text=text):
                return await self._answered(index, call, text, ok=False, started=started)
            case HandoffCall():
                raise ValueError("a handoff is no delegation")
        to_member = read if isinstance(read, SendMessageCall) else None
        if to_member is not None and waits_for(self._run, to_member.recipient):
            text = _CIRCULAR.format(name=to_member.recipient.name)
            return await self._answered(index, call, text, ok=False, started=started)
        if to_member is not None and (too_deep := self._beyond_depth(to_member.recipient)) is not None:
            return too_deep
        try:
            plan = await self._plan(index, call, read)
        except SubagentLifecycleError as refused:
            return await self._answered(index, call, f"[REFUSED] {refused}", ok=False, started=started)
        reply = await self._services.store.run(self._launch(plan))
        if isinstance(reply, Launched) and not reply.runs[0].already_answered:
            await self._tell_hooks(plan)
        match reply:
            case Launched(runs=(child,)) if plan.new_run.background:
                text = canonical_json({"id": child.run_id, "agent": plan.new_run.agent, "ended": False})
                return await self._answered(index, call, text, ok=True, started=started)
            case Launched(runs=(child,)):
                waiting = Waiting(Phase.WAITING_CHILDREN, f"child:{child.run_id}")
                return Answered() if child.already_answered else waiting
            case ParentRefused(reason="STALE" | "ITERATION"):
                return Fenced()
            case Launched():
                raise unexpected("launch", [])
            case LimitReached(name="max_rounds" as name, limit=limit):
                return beyond_limit(self._run, name, limit)
            case ThreadBusy():
                name = to_member.recipient.name if to_member else plan.new_run.agent
                text = _BUSY.format(name=name)
                return await self._answered(index, call, text, ok=False, started=started)
            case _:
                text = f"[REFUSED] {refusal(reply)}"
                return await self._answered(index, call, text, ok=False, started=started)

    async def _tell_hooks(self, plan: Plan) -> None:
        child = plan.new_run
        await self._services.hooks.tell(
            HookPoint.DELEGATE,
            RunDelegated,
            self._run,
            child_id=child.run_id,
            child_agent=child.agent,
            background=child.background,
        )

    def _launch(self, plan: Plan) -> ScriptCall[LaunchReply]:
        run, settings, group = self._run, self._services.settings, plan.ticket.group
        return launching.launch(
            run.key.tenant,
            run.record.session_id,
            [plan.new_run],
            parent=Parent(run.key.run_id, run.fence.epoch, run.fence.token, run.iteration),
            rounds=Rounds(group.counted_on, settings.groups.max_rounds) if group else None,
            max_tree_children=settings.max_tree_children,
            session_ttl_s=plan.session_ttl_s,
        )

    def _beyond_depth(self, recipient: RosterEntry) -> Finish | None:
        limit = self._services.settings.groups.max_depth
        is_over = place_below(self._run, recipient).depth > limit
        return beyond_limit(self._run, "max_depth", limit) if is_over else None

    def _read(self, call: ToolCall) -> DelegationCall:
        spec = self._run.spec
        return read_delegation(call.name, call.arguments, spec.roster, background=spec.background)

    async def _answered(
        self, index: int, call: ToolCall, text: str, *, ok: bool, started: float
    ) -> Answered | Fenced:
        kept = await self._tools.record(index, call.name, text, ok=ok, started=started)
        return Answered() if kept else Fenced()

    async def _plan(self, index: int, call: ToolCall, read: RunAgentCall | SendMessageCall) -> Plan:
        thread = None
        if isinstance(read, SendMessageCall):
            thread = await self._pair_of(read.recipient)
            # The members of a group share the inputs of whoever addresses it.
            inputs = self._run.ticket.request.inputs
            agent, goal = read.recipient.registered, read.message
            request = SubagentLaunchRequest.parse(agent=agent, goal=goal, inputs=inputs)
        else:
            request = SubagentLaunchRequest.parse(agent=read.agent, goal=read.task)
        apart = isinstance(read, RunAgentCall) and read.background
        try:
            snapshot = await self._services.catalogue.snapshot()
            return self._planned(request, snapshot, index, call, thread, background=apart)
        except SubagentLifecycleError as fault:
            if fault.code not in MAY_BE_NEW:
                raise
        snapshot = await self._services.catalogue.snapshot(fresh=True)
        return self._planned(request, snapshot, index, call, thread, background=apart)

    async def _pair_of(self, recipient: RosterEntry) -> JoinedThread:
        """The thread with a recipient; a group goes on there with the member to whom it was handed over."""
        run, thread_id = self._run, pair_thread(self._run, recipient)
        kept = await self._services.store.run(reading.read_conversation(run.key, thread_id))
        return JoinedThread(thread_id, owner=kept.owner if kept else None, group=place_below(run, recipient))

    def _planned(
        self,
        request: SubagentLaunchRequest,
        snapshot: CatalogueSnapshot,
        index: int,
        call: ToolCall,
        thread: JoinedThread | None,
        *,
        background: bool,
    ) -> Plan:
        run = self._run
        return self._services.planner.plan(
            request,
            snapshot,
            tenant=run.key.tenant,
            session_id=run.record.session_id,
            run_id=child_run_id(run.key.run_id, run.iteration, index, 0),
            parent=binding_of(run, index),
            slot=None if background else f"{run.iteration}:{index}",
            slot_tool=call.name,
            background=background,
            thread=thread,
            by_model=True,
        )
