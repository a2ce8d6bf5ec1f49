"""A model's calls about its own agents in the background: look, wait, steer, cancel, answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from retinue.agents.builtin_tools.background import (
    AnswerCall,
    CancelCall,
    CheckCall,
    SteerCall,
    WaitCall,
    read_background,
)
from retinue.agents.builtin_tools.roster import RefusedCall
from retinue.broker.reaper.reaper import sweep
from retinue.contract import Audience, DecisionRefusal, Phase, canonical_json
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, reading
from retinue.store.operations.reading import BackgroundChild
from retinue.worker.calls.call_handler import Answered, Waiting
from retinue.worker.calls.tool_calls import ToolCalls
from retinue.worker.calls.turn import TurnCall
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced
from retinue.worker.services import Services

_STEER_FAULTS = {
    "TERMINAL": "it has ended; check_agent tells its result",
    "CANCELLED": "it is being cancelled",
    "UNSUPPORTED": "this agent takes no messages while it works",
    "CAPACITY": "it has been sent too many messages",
    "UNKNOWN": "it has ended, and is not kept any more",
}
_ANSWER_FAULTS = {
    DecisionRefusal.UNKNOWN: "there is no such question",
    DecisionRefusal.DECIDED: "it has been answered before",
    DecisionRefusal.EXPIRED: "the time for an answer is over",
    DecisionRefusal.CANCELLED: "the agent is being cancelled",
    DecisionRefusal.ENDED: "the agent has ended; check_agent tells its result",
    DecisionRefusal.WRONG_KIND: "it is for a human to answer",
}


class BackgroundCalls:
    """Answers such calls of one run.

    Args:
        services: The process's.
        run: The parent.
        tools: Records the answers.
    """

    def __init__(self, services: Services, run: HeldRun, tools: ToolCalls) -> None:
        self._services = services
        self._run = run
        self._tools = tools

    async def start(self, asked: TurnCall, *, lost: bool) -> Answered | Waiting | Fenced:
        """Answers one call, or says which children it waits for; to be asked again once they have ended."""
        del lost  # each of them may be repeated
        started = time.monotonic()
        answer = await self._answer(asked)
        if isinstance(answer, Waiting):
            return answer
        ok = not answer.startswith("[REFUSED]")
        kept = await self._tools.record(asked.index, asked.call.name, answer, ok=ok, started=started)
        return Answered() if kept else Fenced()

    async def _answer(self, asked: TurnCall) -> str | Waiting:
        read = read_background(asked.call.name, asked.call.arguments)
        if isinstance(read, RefusedCall):
            return f"[REFUSED] {read.text}"
        own = await self._services.store.run(reading.read_background(self._run.key))
        wanted = read.children if isinstance(read, WaitCall) else (read.child,)
        strangers = [child for child in wanted if child not in own]
        if strangers or not own:
            known = ", ".join(own) or "none"
            return f"[REFUSED] You have started no agent {', '.join(strangers)} in the background: {known}."
        match read:
            case CheckCall(child=child):
                return canonical_json(await self._standing(child, own[child]))
            case WaitCall():
                return await self._waited(read, wanted or tuple(own), own)
            case SteerCall():
                return await self._steer(asked, read)
            case CancelCall():
                return await self._cancel(read)
            case AnswerCall():
                return await self._reply(asked, read)

    async def _standing(self, child: str, stands: BackgroundChild) -> Mapping[str, object]:
        if stands.reply is not None:
            return _ended(child, stands.reply)
        view = await self._services.store.run(reading.read_status(self._key(child)))
        if view is None:
            return {"id": child, "ended": False}
        record = view.record
        return {
            "id": child,
            "ended": False,
            "agent": record.agent,
            "state": view.state.value,
            "phase": record.phase.value,
            "steps": record.recorded_iteration,
            **await self._questions(child, stands),
        }

    async def _waited(
        self, read: WaitCall, wanted: Sequence[str], own: Mapping[str, BackgroundChild]
    ) -> str | Waiting:
        working = [child for child in wanted if own[child].reply is None]
        is_over = not working or (read.any_of and len(working) < len(wanted))
        # Who asks waits for an answer: nothing would come of a further wait.
        if not is_over and not any(own[child].asks for child in working):
            detail = "any" if read.any_of else "child"
            return Waiting(Phase.WAITING_CHILDREN, detail, children=tuple(working))
        return canonical_json([await self._waited_for(child, own[child]) for child in wanted])

    async def _waited_for(self, child: str, stands: BackgroundChild) -> Mapping[str, object]:
        if stands.reply is not None:
            return _ended(child, stands.reply)
        return {"id": child, "ended": False, **await self._questions(child, stands)}

    async def _questions(self, child: str, stands: BackgroundChild) -> Mapping[str, object]:
        """What a child asks now, if anything, beside the rest that is told of it."""
        if not stands.asks:
            return {}
        found = await self._services.store.run(asking.read_requests(self._key(child)))
        questions = [
            {"question_id": one.request_id, **one.arguments}
            for one in found.requests
            if one.run_id == child and one.audience is Audience.PARENT
        ]
        return {"asks": questions} if questions else {}

    async def _steer(self, asked: TurnCall, read: SteerCall) -> str:
        run = self._run
        reply = await self._services.store.run(
            control.steer(
                self._key(read.child),
                # The same for a call that is repeated after a crash, so that the message is queued once.
                steer_id=f"{run.key.run_id}:{run.iteration}:{asked.index}",
                message=read.message,
                max_steers=self._services.settings.max_steers,
            )
        )
        fault = _STEER_FAULTS.get(reply.outcome)
        return f"[REFUSED] The message was not sent: {fault}." if fault else "The message is on its way."

    async def _cancel(self, read: CancelCall) -> str:
        key = self._key(read.child)
        reply = await self._services.store.run(control.cancel(key, reason=read.reason))
        if reply.outcome != "ACCEPTED":
            return "[REFUSED] It has ended already; check_agent tells its result."
        await sweep(self._services.store, self._services.wakes, key)
        return "It is being stopped, and everything that it has started."

    async def _reply(self, asked: TurnCall, read: AnswerCall) -> str:
        run = self._run
        reply = await self._services.store.run(
            asking.answer(
                self._key(read.child),
                above=run.key.run_id,
                slot=read.slot,
                # The same for a call that is repeated after a crash, which then finds it accepted.
                decision_id=f"{run.key.run_id}:{run.iteration}:{asked.index}",
                value=read.answer,
                by_model=True,
            )
        )
        if reply.wakeup is not None:
            await self._services.wakes.send(reply.wakeup)
        if reply.refused is None:
            return "The agent has your answer."
        return f"[REFUSED] The question was not answered: {_ANSWER_FAULTS[reply.refused]}."

    def _key(self, child: str) -> RunKey:
        return RunKey(self._run.key.tenant, child)


def _ended(child: str, reply: str) -> Mapping[str, object]:
    return {"id": child, "ended": True, "result": reply}
