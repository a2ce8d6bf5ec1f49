"""What the lifecycle calls answer, made of what the store says. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retinue.client.launching.ticket import Ticket, Verdict, metadata_in
from retinue.client.scope import Target
from retinue.contract import (
    ErrorClassification,
    Keyring,
    Phase,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentHandle,
    SubagentReconnectResult,
    SubagentResult,
    SubagentState,
    SubagentStatus,
    SubagentTerminalState,
    Usage,
)
from retinue.store.call import RunKey
from retinue.store.operations.budgets import budget_status
from retinue.store.operations.control import CancelReply, InterruptReply
from retinue.store.operations.reading import Outcome, RunOrigin, RunResult, RunView, Steer
from retinue.store.record import Record

if TYPE_CHECKING:
    from retinue.broker.catalogue import CatalogueSnapshot

_ASKED = "a human is asked something, which pending() tells, or a budget is spent: raise_budget() goes on"
_CANCELLED = "the run was cancelled before it finished"
_INTERRUPTING = "it was interrupted: it ends at its next iteration boundary"
_INTERRUPTED = "the run was interrupted before it finished"
_MESSAGES = {
    ErrorClassification.DEADLINE_EXCEEDED: "the run's deadline passed before it finished",
    ErrorClassification.MAX_ITERATIONS: "the run used up its iterations before it finished",
    ErrorClassification.BUDGET_EXCEEDED: "the run used up its budget before it finished",
    ErrorClassification.INTERRUPT_REQUESTED: _INTERRUPTED,
    ErrorClassification.WORKER_LOST: "workers died again and again while they ran this agent's own code",
}


def mint(
    ring: Keyring,
    tenant: str,
    session_id: str,
    ticket: Ticket,
    *,
    run_id: str,
    depth: int,
    created_at: float,
) -> SubagentHandle:
    """The handle of a launched run.

    Args:
        created_at: Epoch seconds.
    """
    fields: dict[str, object] = {
        "subagent_id": run_id,
        "parent_session_id": session_id,
        "correlation_id": ticket.request.correlation_id,
        "created_at": created_at,
        "provider": ticket.provider,
        "model": ticket.model,
        "role": ticket.role,
        "depth": depth,
    }
    return ring.mint(tenant, fields)


def handle_of(ring: Keyring, tenant: str, run_id: str, found: RunResult) -> SubagentHandle:
    """The handle of a run that another process may have launched."""
    return handle_of_origin(ring, tenant, run_id, RunOrigin(found.view.record, found.request_json))


def handle_of_origin(ring: Keyring, tenant: str, run_id: str, origin: RunOrigin) -> SubagentHandle:
    """As `handle_of`, of the part of a run that it takes."""
    record = origin.record
    return mint(
        ring,
        tenant,
        record.session_id,
        Ticket.from_json(origin.request_json),
        run_id=run_id,
        depth=record.depth,
        created_at=record.created_ms / 1000,
    )


def usage_of(record: Record) -> Usage | None:
    """What a run has used; None = unknown, for a foreign object reports nothing."""
    return record.usage if _reports_usage(record) else None


def _reports_usage(record: Record) -> bool:
    return record.fields.get("cs") != "o"


def lacking_worker(views: Sequence[RunView | None], snapshot: CatalogueSnapshot) -> list[bool]:
    """For each run, whether it is queued and no live worker has its agent.

    Its record says so only of a run that never started, and only once a worker that lives has seen to it.
    """
    return [view is not None and _lacks_worker(view.record, snapshot) for view in views]


def _lacks_worker(record: Record, snapshot: CatalogueSnapshot) -> bool:
    # An agent that stands in a document of its own is run by any worker.
    agent = "" if record.document else record.agent
    return record.phase is Phase.QUEUED and not snapshot.can_run(agent)


def status_of(handle: SubagentHandle, view: RunView | None, *, lacks_worker: bool = False) -> SubagentStatus:
    """Where a run stands; None = there is none (any more).

    Args:
        lacks_worker: As `lacking_worker` has it.
    """
    if view is None:
        return SubagentStatus.unknown(handle)
    record = view.record
    never_started = record.state is SubagentState.PENDING
    return SubagentStatus(
        handle=handle,
        state=view.state,
        phase=Phase.NO_WORKER if lacks_worker and never_started else record.phase,
        updated_at=record.updated_ms / 1000,
        iteration=record.iteration,
        usage=usage_of(record),
        tree_usage=record.tree_usage if _reports_usage(record) else None,
        limits=_limits(record, view.now_ms),
        diagnostic=_INTERRUPTING if view.is_interrupted else _why_not(record, lacks_worker),
        agent=record.agent,
        model=record.model,
        provider=record.provider,
        continues=record.continues,
        replays=record.replays,
        pending=record.pending,
        budget=budget_status(record.account, record.finished_ms or view.now_ms),
    )


def page_of(
    ring: Keyring,
    tenant: str,
    run_keys: Sequence[RunKey],
    runs: Sequence[RunResult | None],
    lacking: Sequence[bool],
) -> list[SubagentStatus]:
    """A list of runs, each with its handle; those that have expired are left out.

    Args:
        lacking: As `lacking_worker` has it.
    """
    return [
        status_of(handle_of(ring, tenant, key.run_id, run), run.view, lacks_worker=lacks)
        for key, run, lacks in zip(run_keys, runs, lacking, strict=True)
        if run is not None
    ]


def _limits(record: Record, now_ms: int) -> Mapping[str, Any]:
    """The limits in force, by name.

    Returns:
        Counts, inclusive: `max_iterations` (model requests) and `max_tool_calls` (None = no limit) of the
        run, `max_depth` of its tree (root = 0), `max_live_children` of the run itself at one time,
        `max_tree_children` ever below it. `deadline_at` in epoch seconds and `seconds_left` until then, None
        without a deadline: while a human is awaited the latter stands still, and the former moves on.
    """
    end_ms = record.finished_ms
    left_ms = record.time_left_ms(end_ms or now_ms)
    return {
        "max_iterations": record.max_iterations,
        "max_tool_calls": record.max_tool_calls,
        "max_depth": record.max_depth,
        "max_live_children": record.max_live_children,
        "max_tree_children": record.max_tree_children,
        "deadline_at": _deadline_at(record, now_ms),
        "seconds_left": None if left_ms is None else left_ms / 1000,
    }


def _deadline_at(record: Record, now_ms: int) -> float | None:
    deadline_ms, left_ms = record.deadline_ms, record.time_left_ms(now_ms)
    if deadline_ms is None or left_ms is None:
        return None
    return (now_ms + left_ms if record.awaits_human else deadline_ms) / 1000


def ended_state(
    handle: SubagentHandle, view: RunView | None, *, timed_out: bool = False, lacks_worker: bool = False
) -> SubagentTerminalState:
    """How a wait ended.

    Args:
        timed_out: The wait's own time was over.
        lacks_worker: As `lacking_worker` has it.
    """
    if view is None:
        return SubagentTerminalState.unknown(handle)
    ended = view.record.is_terminal
    return SubagentTerminalState(
        handle=handle,
        state=view.state,
        completed=ended,
        timed_out=timed_out and not ended,
        diagnostic=_why_not(view.record, lacks_worker) if timed_out else _ASKED if view.is_asking else None,
    )


def _why_not(record: Record, lacks_worker: bool) -> str | None:
    """Why a run does not go on, if that is for want of a worker, be it that its record says so."""
    lacking = lacks_worker or record.phase is Phase.NO_WORKER
    return f"no live worker runs the agent {record.agent!r}" if lacking else None


def reconnect_of(view: RunView | None) -> SubagentReconnectResult:
    """Whether a run is still there."""
    if view is None:
        return SubagentReconnectResult.unknown()
    return SubagentReconnectResult(connected=True, state=view.state)


def cancel_of(reply: CancelReply) -> SubagentCancelResult:
    """What a cancel did. An accepted one is answered alike, even if the sweep has ended the run already."""
    match reply.outcome:
        case "ACCEPTED":
            return SubagentCancelResult(accepted=True, state=SubagentState.CANCEL_REQUESTED)
        case "TERMINAL":
            state = reply.state or SubagentState.UNKNOWN
            return SubagentCancelResult(accepted=False, state=state, already_terminal=True)
        case _:
            return SubagentCancelResult.unknown()


def interrupt_of(reply: InterruptReply) -> SubagentCancelResult:
    """What an interrupt did. The state of an accepted one is the run's own: many go on for a moment."""
    state = reply.state or SubagentState.UNKNOWN
    match reply.outcome:
        case "ACCEPTED" | "ENDED":
            return SubagentCancelResult(accepted=True, state=state)
        case "TERMINAL":
            return SubagentCancelResult(accepted=False, state=state, already_terminal=True)
        case "UNSUPPORTED":
            return SubagentCancelResult(accepted=False, state=state, unsupported=True)
        case _:
            return SubagentCancelResult.unknown()


def receipt_of(steer_id: str, disposition: str, text: str) -> SteerReceipt:
    """How a steer stands: `q` queued, `d<iteration>` delivered, `m` missed, then with its text."""
    match disposition[:1]:
        case "q":
            return SteerReceipt(steer_id=steer_id, state=SteerState.QUEUED)
        case "d":
            return SteerReceipt(steer_id=steer_id, state=SteerState.DELIVERED, iteration=int(disposition[1:]))
        case _:
            return SteerReceipt(steer_id=steer_id, state=SteerState.MISSED, text=text)


def find_receipt(steers: tuple[Steer, ...], steer_id: str) -> SteerReceipt:
    """The receipt of one steer among a run's."""
    for steer in steers:
        if steer.steer_id == steer_id:
            return receipt_of(steer_id, steer.disposition, steer.message)
    return SteerReceipt.unknown()


def result_of(handle: SubagentHandle, found: Outcome) -> SubagentResult:
    """What a run came to; the same each time it is asked for."""
    if found is None:
        return SubagentResult.unknown(handle)
    view = found if isinstance(found, RunView) else found.view
    record = view.record
    if isinstance(found, RunView) or not record.is_terminal:
        return SubagentResult.not_ready(handle, view.state)
    verdict = Verdict.from_json(found.result_json)
    usage = record.usage
    return SubagentResult.ended(
        handle,
        record.state,
        started_at=None if record.started_ms is None else record.started_ms / 1000,
        completed_at=(record.finished_ms or record.updated_ms) / 1000,
        summary=_last_text(found, verdict),
        structured_payload=verdict.payload,
        error_classification=record.classification,
        error_message=verdict.message or _message(record),
        usage_metadata=_usage_metadata(record, usage),
        tool_execution_summary=_tool_summary(record, usage),
        metadata=metadata_in(found.request_json),
        steers=tuple(receipt_of(s.steer_id, s.disposition, s.message) for s in found.steers),
    )


def results_of(
    targets: Sequence[tuple[object, Target | None]], outcomes: Mapping[str, Outcome]
) -> tuple[SubagentResult, ...]:
    """What several runs came to.

    Args:
        targets: Each handle as the caller gave it, with where it leads to; None = nowhere.
        outcomes: By run id.
    """
    return tuple(
        result_of(target.handle, outcomes[target.key.run_id]) if target else SubagentResult.unknown(handle)
        for handle, target in targets
    )


def text_of(found: RunResult) -> str | None:
    """The whole of the last text, of which a result shows a part."""
    if not found.view.record.is_terminal:
        return None
    return _last_text(found, Verdict.from_json(found.result_json))


def _last_text(found: RunResult, verdict: Verdict) -> str | None:
    # Where the store itself ended the run, what its model said last is all there is.
    return found.partial if found.result_json is None else verdict.summary


def _message(record: Record) -> str | None:
    classification = record.classification
    if classification is not None:
        return _MESSAGES.get(classification)
    return _CANCELLED if record.state is SubagentState.CANCELLED else None


def _usage_metadata(record: Record, usage: Usage) -> Mapping[str, Any] | None:
    if not _reports_usage(record):
        return None
    # As it was at its end: a result never changes, and runs that it abandoned may go on.
    return {**usage.to_dict(), "tree": record.ended_tree_usage.to_dict()}


def _tool_summary(record: Record, usage: Usage) -> Mapping[str, Any]:
    ended_ms = record.finished_ms or record.updated_ms
    duration = {"duration_seconds": (ended_ms - (record.started_ms or ended_ms)) / 1000}
    if not _reports_usage(record):
        return duration
    used = {"tools": dict(usage.tools), "tool_seconds": dict(usage.tool_seconds)}
    return {**duration, "tool_calls": usage.tool_calls, **used}
