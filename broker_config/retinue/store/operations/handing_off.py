"""A handoff: the run stays, and another agent goes on with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from retinue.store.call import RunKey, ScriptCall, on_run, text, unexpected
from retinue.store.record import WakeUpKind, parse_wake_up
from retinue.store.replies import CallResult, Fence, HandedOff, Stale, Stopped, TooManyHandoffs


def hand_off(
    run: RunKey,
    fence: Fence,
    operation: str,
    *,
    iteration: int,
    sender: str,
    recipient: str,
    queue: str,
    results: Sequence[CallResult],
    max_handoffs: int,
) -> ScriptCall[HandedOff | TooManyHandoffs | Stopped | Stale]:
    """Gives the run to another agent, which stays the owner of its thread.

    Args:
        iteration: The one whose response asks for it.
        sender: The run's present agent.
        recipient: The agent that goes on with it.
        queue: Where its wake-ups go from now on.
        results: Of the handoff's call, and of those that it leaves undone.
        max_handoffs: Of the run's whole life.
    """

    def parse(reply: Any) -> HandedOff | TooManyHandoffs | Stopped | Stale:
        match text(reply[0]):
            case "HANDED_OFF":
                wakeup = parse_wake_up(run.tenant, reply[1], kind=WakeUpKind.HANDOFF)
                if wakeup is None:
                    raise unexpected("handoff", reply)
                return HandedOff(wakeup)
            case "MAX_HANDOFFS":
                return TooManyHandoffs(int(reply[1]))
            case "STALE" | "BEHIND":
                return Stale()
            case "CANCEL" | "INTERRUPT" | "DEADLINE" as reason:
                return Stopped(reason)
            case _:
                raise unexpected("handoff", reply)

    fours = [
        word
        for result in results
        for word in (
            result.index,
            json.dumps(result.value),
            json.dumps(result.tool),
            "true" if result.ok else "false",
        )
    ]
    head = (fence.epoch, fence.token, operation, iteration, recipient, queue, max_handoffs)
    return on_run("handoff", run, (*head, json.dumps(sender), json.dumps(recipient), *fours), parse)
