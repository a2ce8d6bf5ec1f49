"""One task: from claiming a run to suspending or ending it."""

from __future__ import annotations

import logging
import secrets
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

from retinue.agents import Grant, HookPoint, RunStarted
from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket, Verdict
from retinue.contract import ErrorClassification, RetinueError, SettingsError, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import running
from retinue.store.operations.outbox import Told
from retinue.store.record import WakeUp
from retinue.store.replies import Claimed, Ended, NotClaimed, Overtaken, Stale
from retinue.worker.pool.reports import Failed, Revoked, Succeeded, TaskReport
from retinue.worker.process.hints import CancelHints
from retinue.worker.process.roll import Roll
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish, HandBack, HandOff, Left, Outcome
from retinue.worker.run.readying import make_ready
from retinue.worker.run.runner import lost_for_good, runner_of
from retinue.worker.run.workspace import open_workspace
from retinue.worker.services import Services

_log = logging.getLogger("retinue.worker")
_REPLY_MAX_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class Suspect:
    """A process was lost with the run: it was not claimed, and goes on in a process that it has to itself."""

    key: RunKey


class Attempt:
    """Claims a run and goes on with it as far as this worker can.

    Args:
        services: The process's.
        roll: Which runs the process holds.
        hints: Tell of cancels.
        key: The run that a wake-up names.
    """

    def __init__(self, services: Services, roll: Roll, hints: CancelHints, key: RunKey) -> None:
        self._services = services
        self._roll = roll
        self._hints = hints
        self._key = key

    async def run(self) -> TaskReport | Suspect:
        """Does the task; the report is what Celery's events say of it."""
        started, token = time.monotonic(), secrets.token_hex(8)
        with self._roll.entered(self._key) as entry, self._hints.watching(entry):
            claimed = await self._services.store.run(
                running.claim(
                    self._key,
                    token=token,
                    process=self._services.process,
                    capable=self._services.capable,
                    alone=self._services.alone,
                    tells_hooks=self._services.hooks.are_told_of_ends,
                )
            )
            match claimed:
                case NotClaimed(reason="SUSPECT"):
                    return Suspect(self._key)
                case NotClaimed(reason=reason):
                    _log.debug("wakeup.dropped run=%s reason=%s", self._key.run_id, reason)
                    return Succeeded(f"dropped: {reason.lower()}")
                case Ended(state=state):
                    await self._wake(claimed.owed)
                    self._services.outbox.ended(self._key, "".join(Told))
                    return _report(state, None, 0)
                case Claimed():
                    held, refused = await self._prepare(claimed)
            entry.held(held)
            try:
                outcome = refused or await self._guarded(held)
                outcome, report = await self._concluded(held, outcome)
            finally:
                held.leave(self._services.slots)
        _log.log(
            logging.WARNING if isinstance(report, Failed) else logging.INFO,
            "task.done run=%s agent=%s outcome=%s%s duration_s=%.3f",
            self._key.run_id, held.spec.agent, type(outcome).__name__.lower(), _ending(outcome),
            time.monotonic() - started,
        )  # fmt: skip
        return report

    async def _prepare(self, claimed: Claimed) -> tuple[HeldRun, Finish | None]:
        """The run, ready to go on with, or how it ends: one that is only dropped would come back for ever."""
        try:
            held = self._read(claimed)
        except Exception as fault:
            _log.error("run.unreadable run=%s %s", self._key.run_id, _trace(fault))
            message = (
                f"the worker cannot read what is stored of this run ({type(fault).__name__}): it was written "
                "by another version of Retinue or of the agent"
            )
            refused = Finish(SubagentState.FAILED, ErrorClassification.INTERNAL_ERROR, message=message)
            return HeldRun.bare(self._key, claimed), refused
        try:
            if claimed.spec_json is None:
                held.adopt(await self._services.specs.resolve(held.key, held.ticket, held.record))
            root = self._services.settings.workspace_root
            held.working_directory = open_workspace(root, held.ticket.request.working_directory)
        except RetinueError as fault:
            # The declaration and this worker's settings do not fit; the owner is told the mend.
            return held, Finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR, message=str(fault))
        except Exception as fault:
            return held, self._crashed(held, fault)
        return held, None

    def _read(self, claimed: Claimed) -> HeldRun:
        held = HeldRun.bare(self._key, claimed)
        held.ticket = Ticket.from_json(claimed.request_json)
        for narrowing in claimed.grants:
            step = Grant.model_validate_json(narrowing)
            held.grant = held.grant.narrowed(step.toolsets, step.blocked_tools)
        if claimed.spec_json is not None:
            held.adopt(EffectiveSpec.model_validate_json(claimed.spec_json))
        return held

    async def _guarded(self, held: HeldRun) -> Outcome:
        """Drives the run; a fault of ours ends it, for nobody else would ever go on with it."""
        try:
            return await self._drive(held)
        except SettingsError as fault:
            return Finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR, held.partial, str(fault))
        except Exception as fault:
            return self._crashed(held, fault)

    def _crashed(self, held: HeldRun, fault: Exception) -> Finish:
        _log.error("run.crashed run=%s %s", self._key.run_id, _trace(fault))
        message = f"internal error ({type(fault).__name__}); the worker's log has the details"
        return Finish(SubagentState.FAILED, ErrorClassification.INTERNAL_ERROR, held.partial, message)

    async def _drive(self, held: HeldRun) -> Outcome:
        unready = await make_ready(self._services, held)
        if unready is not None:
            return unready
        runner = runner_of(self._services, held)
        lost = lost_for_good(runner, held)
        if lost is not None:
            return lost
        if held.iteration == 0:
            await self._services.hooks.tell(HookPoint.START, RunStarted, held)
        overtaken = False
        while True:
            outcome = await runner.drive(overtaken=overtaken)
            if not isinstance(outcome, Finish) or not outcome.natural:
                return outcome
            # A steer that came in time is still answered; the run ends only once the store says so.
            ended = await self._finish(held, outcome)
            if not isinstance(ended, Overtaken):
                return outcome if isinstance(ended, Ended) else Fenced()
            overtaken = True

    async def _concluded(self, held: HeldRun, outcome: Outcome) -> tuple[Outcome, TaskReport]:
        """Does what the outcome asks for; if that fails, the run ends without what could not be written.

        Returns:
            The outcome that came to be, and its report.
        """
        try:
            return await self._conclude(held, outcome)
        except Exception as fault:
            return await self._conclude(held, replace(self._crashed(held, fault), summary=None))

    async def _conclude(self, held: HeldRun, outcome: Outcome) -> tuple[Outcome, TaskReport]:
        match outcome:
            case Left(phase=phase, open=count):
                return outcome, Succeeded(f"suspended: {phase} ({count} open)")
            case HandOff(recipient=recipient, wakeup=wakeup):
                await self._wake((wakeup,))
                return outcome, Succeeded(f"handed off to {recipient}")
            case HandBack():
                await self._hand_back(held)
                return outcome, Succeeded("handed back")
            case Fenced():
                times = self._services.settings.losses_before_worker_lost
                if not await self._hand_back(held, times_before_end=times):
                    return outcome, Succeeded("fenced: another attempt owns the run")
                _log.warning("run.set_back run=%s: the store has lost what its attempt did", self._key.run_id)
                return outcome, Succeeded("handed back: the store has lost what the attempt did")
            case Finish():
                if not outcome.natural and isinstance(await self._finish(held, outcome), Stale):
                    return Fenced(), Succeeded("fenced: another attempt owns the run")
                return outcome, _report(outcome.state, outcome.classification, held.iteration)

    async def _hand_back(self, held: HeldRun, *, times_before_end: int | None = None) -> bool:
        """Gives the run up to the next attempt; False = it is another's already."""
        with held.releasing():
            reply = await self._services.store.run(
                running.hand_back(held.key, held.fence, held.operation(), times_before_end=times_before_end)
            )
        if isinstance(reply, Stale):
            return False
        await self._wake(reply.owed)
        if isinstance(reply, Ended):
            self._services.outbox.ended(held.key, held.record.tells)
        return True

    async def _finish(self, held: HeldRun, finish: Finish) -> Ended | Overtaken | Stale:
        verdict = Verdict(summary=finish.summary, payload=finish.payload, message=finish.message)
        with held.releasing():
            reply = await self._services.store.run(
                running.finish(
                    held.key,
                    held.fence,
                    held.operation(),
                    state=finish.state,
                    classification=finish.classification,
                    result_json=verdict.to_json(),
                    reply=_reply(finish),
                    natural=finish.natural,
                    answers=finish.answers,
                )
            )
        if isinstance(reply, Ended):
            await self._wake(reply.owed)
            self._services.outbox.ended(held.key, held.record.tells)
        return reply

    async def _wake(self, owed: Sequence[WakeUp]) -> None:
        if owed:
            await self._services.wakes.send(*owed)


def _trace(fault: BaseException) -> str:
    """Kind and places of an error and of those it groups, without their texts: these may quote a prompt."""
    lines = [f"error={type(fault).__name__}\n", *traceback.format_tb(fault.__traceback__)]
    inner = fault.exceptions if isinstance(fault, BaseExceptionGroup) else ()  # pyright: ignore[reportUnknownVariableType]
    return "".join([*lines, *(_trace(each) for each in inner)])  # pyright: ignore[reportUnknownArgumentType]


def _ending(outcome: Outcome) -> str:
    """How the run ended, for the log; nothing while it goes on."""
    if not isinstance(outcome, Finish):
        return ""
    cause = f" classification={outcome.classification}" if outcome.classification else ""
    return f" state={outcome.state}{cause}"


def _reply(finish: Finish) -> str:
    """What the parent's model reads: the answer, or what went wrong and how far the agent came."""
    if finish.state is SubagentState.SUCCEEDED:
        # Half a JSON value is none; an object is bounded where it was accepted.
        return (finish.summary or "")[: None if finish.payload is not None else _REPLY_MAX_CHARS]
    head = f"[{finish.classification or finish.state}] This agent ended {finish.state}"
    text = f"{head}: {finish.message.rstrip('.')}." if finish.message else f"{head}."
    return (f"{text}\nIts last text was:\n{finish.summary}" if finish.summary else text)[:_REPLY_MAX_CHARS]


def _report(state: SubagentState, classification: ErrorClassification | None, iterations: int) -> TaskReport:
    """A task that ends its run FAILED is a failure; an interrupted run is a success that says so."""
    match state:
        case SubagentState.CANCELLED:
            return Revoked("cancelled")
        case SubagentState.FAILED:
            return Failed(classification or ErrorClassification.INTERNAL_ERROR)
        case _:
            return Succeeded(f"{state.value}, {iterations} iterations")
