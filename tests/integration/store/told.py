"""The store's answers in a few words, as the model checker's model gives them."""

from __future__ import annotations

from typing import Any

from retinue.store.operations import launching
from retinue.store.operations.asking import DecisionReply
from retinue.store.operations.control import CancelReply, InterruptReply, NeedsSweep, SteerReply
from retinue.store.replies import (
    Approved,
    Begun,
    Claimed,
    Ended,
    HandedOff,
    NotApproved,
    NotClaimed,
    Overtaken,
    Passed,
    Queued,
    Ready,
    Recorded,
    RecordedResponse,
    Stale,
    Stopped,
    Suspended,
    UsedBefore,
)

_PLAIN = {
    Overtaken: "overtaken",
    Queued: "queued",
    HandedOff: "handed off",
    Ready: "ready",
    Recorded: "recorded",
    RecordedResponse: "recorded",
    Stale: "stale",
    Begun: "begun",
    UsedBefore: "used",
    NotApproved: "not approved",
    NeedsSweep: "needs sweep",
    type(None): "nothing",
}


def told(answer: Any) -> str:
    """What an answer says."""
    match answer:
        case Claimed(fence=fence):
            return f"claimed {fence.epoch}"
        case NotClaimed(reason=reason):
            return f"not claimed {reason}"
        case Ended(state=state, wakeup=wakeup):
            return f"ended {state}{_wakes(wakeup)}"
        case Passed(iteration=iteration, steers=steers):
            return f"passed {iteration} {len(steers)}"
        case Stopped(reason=reason):
            return f"stopped {reason}"
        case Suspended(open=count):
            return f"suspended {count}"
        case Approved(slots=slots):
            return f"approved {' '.join(slots)}"
        case InterruptReply(outcome="ENDED", state=state, wakeups=wakeups):
            return f"ended {state}{''.join(map(_wakes, wakeups))}"
        case InterruptReply(outcome=outcome, state=state):
            return f"{outcome} {state}" if outcome == "ACCEPTED" else outcome
        case SteerReply(outcome=outcome) | CancelReply(outcome=outcome):
            return outcome
        case DecisionReply(refused=refused, wakeup=wakeup):
            return f"{refused or 'accepted'}{_wakes(wakeup)}"
        case _ if type(answer) in _PLAIN:
            return _PLAIN[type(answer)]
        case _:
            return _launched(answer)


def _launched(answer: launching.LaunchReply) -> str:
    match answer:
        case launching.Launched(runs=runs):
            words = ["repeat" if run.repeated else "done" if run.already_answered else "new" for run in runs]
            return f"launched {' '.join(words)}"
        case launching.DuplicateCorrelation(run_id=run_id, same=same, conflict=conflict):
            return f"{'same' if same else 'conflict' if conflict else 'duplicate'} {run_id}"
        case launching.ThreadBusy(run_id=run_id):
            return f"busy {run_id}"
        case launching.ParentRefused(reason=reason):
            return f"parent {reason}"
        case launching.LimitReached(name=name):
            return f"limit {name}"
        case launching.IdConflict(run_id=run_id):
            return f"id conflict {run_id}"


def _wakes(wakeup: Any) -> str:
    return f" wakes {wakeup.run_id}" if wakeup else ""
