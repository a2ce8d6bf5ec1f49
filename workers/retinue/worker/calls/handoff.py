"""The call with which a model gives the conversation away, and the calls that come too late after it."""

from __future__ import annotations

import time

from retinue.agents import HookPoint, RunHandedOff
from retinue.agents.builtin_tools.roster import HANDOFF, HandoffCall, RefusedCall, read_delegation
from retinue.broker.routes import queue_for
from retinue.store.operations import handing_off
from retinue.store.replies import CallResult, HandedOff, Stale, Stopped, TooManyHandoffs
from retinue.worker.calls.call_handler import Answered
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import TurnCall
from retinue.worker.run.ending import stopped
from retinue.worker.run.group import beyond_limit
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish, HandOff
from retinue.worker.services import Services

_TOO_LATE = (
    "[CANCELLED] This call was not run: the call before it decided who goes on. Make it again if it is still "
    "needed."
)


class Handoff:
    """Gives a run to another agent.

    Args:
        services: The process's.
        run: The run.
        tools: Records refusals.
    """

    def __init__(self, services: Services, run: HeldRun, tools: ToolCalls) -> None:
        self._services = services
        self._run = run
        self._tools = tools

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | HandOff | Finish | Fenced:
        """Hands the run over; every other call of the turn has its result already."""
        del lost  # it takes effect in the store, in one step: either wholly or not at all
        started, spec = time.monotonic(), self._run.spec
        read = read_delegation(HANDOFF, asked.call.arguments, spec.roster, spec.handoffs)
        if isinstance(read, HandoffCall):
            return await self._hand_off(asked, read)
        text = read.text if isinstance(read, RefusedCall) else ""
        kept = await self._tools.record(asked.index, HANDOFF, text, ok=False, started=started)
        return Answered() if kept else Fenced()

    async def _hand_off(self, asked: TurnCall, read: HandoffCall) -> HandOff | Finish | Fenced:
        run, settings, recipient = self._run, self._services.settings, read.recipient
        entry = None
        if run.record.document is None:  # else workers' agent of that name is another one
            entry = (await self._services.catalogue.snapshot()).agent(recipient.registered)
        with run.releasing():
            reply = await self._services.store.run(
                handing_off.hand_off(
                    run.key,
                    run.fence,
                    run.operation(),
                    iteration=run.iteration,
                    sender=run.spec.agent,
                    recipient=recipient.registered,
                    queue=queue_for(recipient.registered, settings, entry.queue if entry else None),
                    results=[CallResult(asked.index, _taken_over(run, recipient.name), HANDOFF, ok=True)],
                    max_handoffs=settings.groups.max_handoffs,
                )
            )
        match reply:
            case HandedOff(wakeup=wakeup):
                name = recipient.registered
                await self._services.hooks.tell(HookPoint.HANDOFF, RunHandedOff, run, recipient=name)
                return HandOff(recipient.registered, wakeup)
            case TooManyHandoffs(limit=limit):
                return beyond_limit(run, "max_handoffs", limit)
            case Stopped(reason=reason):
                return stopped(reason, run)
            case Stale():
                return Fenced()


class TooLate:
    """Answers the calls that come after the one that decides who goes on, without running them."""

    def __init__(self, tools: ToolCalls) -> None:
        self._tools = tools

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | Fenced:
        """Says that the call was not run."""
        del lost
        started = time.monotonic()
        kept = await self._tools.record(asked.index, asked.call.name, _TOO_LATE, ok=False, started=started)
        return Answered() if kept else Fenced()


def _taken_over(run: HeldRun, recipient: str) -> str:
    return (
        f"[HANDED OFF] {run.spec.title or run.spec.agent} has handed the conversation over to {recipient}. "
        f"{recipient}: it is yours from here on. Go on with it at once, without introducing yourself."
    )
