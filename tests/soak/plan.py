"""What goes wrong in a soak, and when: made from the seed alone, so that the seed brings it back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class FaultKind(StrEnum):
    """One kind of fault. Workers are meant by slot: whoever is killed or drained is replaced at once."""

    KILL_WORKER = "kill_worker"
    KILL_SIDECAR = "kill_sidecar"
    KILL_REAPER = "kill_reaper"  # the worker that is elected at that moment
    RESTART_SERVER = "restart_server"  # SIGKILL; it comes back `lasts_s` later with its append-only file
    CUT = "cut"  # every connection to the server, three times in `lasts_s`
    DRAIN = "drain"  # SIGTERM
    DRAIN_AND_KILL = "drain_and_kill"  # SIGTERM, and SIGKILL `lasts_s` later
    PAUSE = "pause"  # SIGSTOP, and SIGCONT `lasts_s` later: within the lease, or beyond it
    HALF_OPEN = "half_open"  # the connections of the worker behind the proxy carry nothing any more
    LATENCY = "latency"  # half a second, of the worker behind the proxy, for `lasts_s`


KILLS = frozenset(
    {FaultKind.KILL_WORKER, FaultKind.KILL_SIDECAR, FaultKind.KILL_REAPER, FaultKind.DRAIN_AND_KILL}
)

PER_MINUTE = {
    FaultKind.KILL_WORKER: 3.0,
    FaultKind.KILL_SIDECAR: 2.0,
    FaultKind.KILL_REAPER: 1.0,
    FaultKind.RESTART_SERVER: 1.2,
    FaultKind.CUT: 1.5,
    FaultKind.DRAIN: 1.0,
    FaultKind.DRAIN_AND_KILL: 0.5,
    FaultKind.PAUSE: 1.5,
    FaultKind.HALF_OPEN: 0.5,
    FaultKind.LATENCY: 0.5,
}
_LASTS_S = {
    FaultKind.RESTART_SERVER: (0.1, 2.0),
    FaultKind.CUT: (1.0, 3.0),
    FaultKind.DRAIN_AND_KILL: (0.1, 1.0),
    FaultKind.PAUSE: (0.2, 3.0),
    FaultKind.LATENCY: (1.0, 3.0),
}
_QUIET = (0.05, 0.95)
"""The parts of a soak between which faults happen: work has begun, and can come to an end."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault.

    Args:
        at_s: Seconds from the start.
        kind: What.
        slot: Which worker, from 0 on, where one is meant.
        lasts_s: How long it takes, in seconds; 0 = a moment.
    """

    at_s: float
    kind: FaultKind
    slot: int
    lasts_s: float


def plan_faults(seed: int, *, seconds: float, slots: int) -> list[Fault]:
    """The faults of a soak in order, at least one of each kind."""
    random = Random(seed)
    faults: list[Fault] = []
    for kind, rate in PER_MINUTE.items():
        for _ in range(max(1, round(rate * seconds / 60))):
            at_s = random.uniform(*_QUIET) * seconds
            faults.append(
                Fault(at_s, kind, random.randrange(slots), random.uniform(*_LASTS_S.get(kind, (0, 0))))
            )
    return sorted(faults)
