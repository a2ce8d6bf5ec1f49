"""What is done to a run from outside: steer, cancel, interrupt; and by the reaper: sweep, timer, wake-up."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.call import RunKey, ScriptCall, on_run, text, unexpected
from retinue.store.operations.budgets import woken_of
from retinue.store.record import WakeUp, WakeUpKind, parse_wake_up
from retinue.store.replies import Ended, Queued
from retinue.store.scripts import script

SWEEP_CHUNK = 50
"""Runs that one sweep may end: about 5 ms of the server."""

STUCK_MS = 30_000
"""What a worker has to end a run that is out of time, beyond what the run's tools get to clean up."""


@dataclass(frozen=True, slots=True)
class SteerReply:
    """QUEUED, KNOWN (`detail`: q, d<iteration> or m), UNKNOWN, TERMINAL, CANCELLED, UNSUPPORTED, CAPACITY."""

    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class CancelReply:
    """ACCEPTED (also when repeated), UNKNOWN or TERMINAL (`state` says which)."""

    outcome: str
    state: SubagentState | None


@dataclass(frozen=True, slots=True)
class InterruptReply:
    """ACCEPTED (also when repeated), ENDED (at once), UNKNOWN, TERMINAL or UNSUPPORTED.

    Args:
        state: As a reader sees it now; None = there is no such run.
        wakeups: Owed where the run has ended at once.
    """

    outcome: str
    state: SubagentState | None
    wakeups: tuple[WakeUp, ...] = ()


@dataclass(frozen=True, slots=True)
class Swept:
    """One chunk of a sweep: go on from `cursor` until it is empty."""

    cursor: str
    ended: int
    running: int
    wakeups: tuple[WakeUp, ...]


@dataclass(frozen=True, slots=True)
class NeedsSweep:
    """The timer stands for a mark: sweep the subtree."""


def steer(run: RunKey, *, steer_id: str, message: str, max_steers: int) -> ScriptCall[SteerReply]:
    """Queues a message for the next boundary.

    Args:
        steer_id: Its identity: a repeat answers how the first stands.
        max_steers: Most a run takes in its life.
    """

    def parse(reply: Any) -> SteerReply:
        return SteerReply(text(reply[0]), text(reply[1]) if len(reply) > 1 else "")

    return on_run("steer", run, (steer_id, json.dumps(message), max_steers), parse)


def cancel(run: RunKey, *, reason: str) -> ScriptCall[CancelReply]:
    """Marks a run and its whole subtree as cancelled. Sweep it afterwards."""

    def parse(reply: Any) -> CancelReply:
        state = SubagentState(text(reply[1])) if len(reply) > 1 else None
        return CancelReply(text(reply[0]), state)

    return on_run("cancel", run, (json.dumps(reason),), parse)


def interrupt(run: RunKey, *, reason: str) -> ScriptCall[InterruptReply]:
    """Stops a run at its next boundary, and at once where no worker holds it; its children go on."""

    def parse(reply: Any) -> InterruptReply:
        state = SubagentState(text(reply[1])) if len(reply) > 1 else None
        return InterruptReply(text(reply[0]), state, woken_of(run, reply[2]) if len(reply) > 2 else ())

    # The random id makes a repeat of this very call known as such.
    return on_run("interrupt", run, (json.dumps(reason), secrets.token_hex(8)), parse)


def sweep(run: RunKey, *, cursor: str = "") -> ScriptCall[Swept]:
    """Ends what no worker holds in a marked subtree, and tells the owners of the rest."""

    def parse(reply: Any) -> Swept:
        wakeups = tuple(wake for raw in reply[3] if (wake := parse_wake_up(run.tenant, raw)))
        return Swept(text(reply[0]), int(reply[1]), int(reply[2]), wakeups)

    return on_run("sweep", run, (cursor, SWEEP_CHUNK), parse)


def timer(
    run: RunKey, *, again_ms: int, grace_ms: int = STUCK_MS
) -> ScriptCall[NeedsSweep | Ended | Queued | None]:
    """Does what a due timer asks for; None = nothing, or not yet.

    Args:
        again_ms: When to look again at a run that is still on a worker, or being swept.
        grace_ms: How long after its deadline a run is left to its worker, which may be stuck.
    """

    def parse(reply: Any) -> NeedsSweep | Ended | Queued | None:
        match text(reply[0]):
            case "SWEEP":
                return NeedsSweep()
            case "ENDED":
                wakeup = parse_wake_up(run.tenant, reply[2]) if len(reply) > 2 else None
                return Ended(SubagentState(text(reply[1])), wakeup, woken_of(run, reply[3]))
            case "QUEUED":
                wakeup = parse_wake_up(run.tenant, reply[1])
                return Queued(wakeup, woken_of(run, reply[2])) if wakeup else None
            case "LATER" | "NOTHING":
                return None
            case _:
                raise unexpected("timer", reply)

    return on_run("timer", run, (again_ms, grace_ms), parse)


def no_worker(run: RunKey) -> ScriptCall[bool]:
    """Says of a queued run that no live worker can run it; False = not queued, or claimed before."""

    def parse(reply: Any) -> bool:
        return text(reply[0]) == "OK"

    return on_run("no_worker", run, (), parse)


def forget_queue(partition: int, queue: str) -> ScriptCall[bool]:
    """Takes a queue out of those that a partition's runs wait in; False = a run does, or it was not there."""
    prefix = keys.partition_prefix(partition)
    return ScriptCall(script("forget_queue"), (keys.queues(partition),), (prefix, queue), bool)


def elect(process: str, *, lease_ms: int) -> ScriptCall[bool]:
    """Makes a process the elected reaper for a time, or keeps it so; False = another one is."""
    return ScriptCall(script("elect"), (keys.REAPER,), (process, lease_ms), bool)


def rewake(run: RunKey, *, first_ms: int, longest_ms: int) -> ScriptCall[WakeUp | None]:
    """A new wake-up for a queued run whose last one seems lost; None = not queued, or not yet.

    Args:
        first_ms: Back-off after the first resend; doubled by each.
        longest_ms: Its cap.
    """

    def parse(reply: Any) -> WakeUp | None:
        if text(reply[0]) != "WAKE":
            return None
        # A launch that is sent again must not overtake the others.
        kind = WakeUpKind.DELEGATE if text(reply[2]) == "PENDING" else WakeUpKind.RESUME
        return parse_wake_up(run.tenant, reply[1], kind=kind)

    return on_run("rewake", run, (first_ms, longest_ms), parse)
