"""How a run ends that the store does not let go on, or whose work in flight was cut."""

from __future__ import annotations

from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.run.cut import Cut
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish


def cut_short(cut: Cut, run: HeldRun) -> Finish | Fenced:
    """What becomes of a run whose work in flight nobody waits for any longer."""
    return Fenced() if cut is Cut.LOST else stopped(cut.value, run)


def stopped(reason: str, run: HeldRun, *, limit: int | None = None) -> Finish:
    """How a run ends that the store does not let pass.

    Args:
        limit: The one that was reached, for MAX_ITERATIONS.
    """
    match reason:
        case "CANCEL":
            return Finish(SubagentState.CANCELLED, None, run.partial)
        case "INTERRUPT":
            state, why = ErrorClassification.INTERRUPT_REQUESTED, "an interrupt was requested"
        case "DEADLINE":
            state, why = ErrorClassification.DEADLINE_EXCEEDED, "the deadline passed"
        case _:
            state, why = (
                ErrorClassification.MAX_ITERATIONS,
                f"the limit of {limit} model requests was reached",
            )
    return Finish(SubagentState.INTERRUPTED, state, run.partial, why)
