"""What the answers to a round of canaries amount to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from retinue.broker.canaries import CanaryAnswer
from retinue.broker.catalogue import CatalogueSnapshot, WorkerEntry
from retinue.http.readiness.canary_round import RoundAnswers

STARTS_WITHIN_S: Final = 20.0
"""How long a worker may take from its first sign of life to its first message, in seconds."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be so.

    Args:
        name: What it is about.
        ok: Whether it is so.
        detail: For those who may know the names of workers and queues.
        counts: The same for anybody.
    """

    name: str
    ok: bool
    detail: str
    counts: str = ""

    def to_dict(self, *, names: bool) -> dict[str, Any]:
        """Plain JSON values. `names`: whether those of workers and queues may be told."""
        detail = self.detail if names else self.counts or self.detail
        return {"name": self.name, "ok": self.ok, "detail": detail}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the service is ready; it is once every check is good."""

    checks: tuple[Check, ...]

    @property
    def ready(self) -> bool:
        """Whether every check is good."""
        return all(check.ok for check in self.checks)

    def to_dict(self, *, names: bool) -> dict[str, Any]:
        """Plain JSON values. `names`: whether those of workers and queues may be told."""
        return {"ready": self.ready, "checks": [check.to_dict(names=names) for check in self.checks]}


class Standing(Enum):
    """How a worker stands after a round; its value says so of several."""

    TAKES = "take work"
    FULL = "full"
    OLDER = "cannot be asked: of an older release"
    STARTS = "still start"
    SILENT = "do not take work"


_GOOD: Final = (Standing.TAKES, Standing.FULL, Standing.OLDER)
_NOBODY: Final = "no worker is left"


def workers_check(snapshot: CatalogueSnapshot) -> Check:
    """Whether some worker lives and takes work."""
    count = len(snapshot.takers)
    other = len(snapshot.workers) - count
    more = f"; {other} drain or have one run to themselves" if other else ""
    return Check("workers", count > 0, f"{count or 'no'} live worker{'s'[: count != 1]} to take work{more}")


def queues_to_ask(takers: Iterable[WorkerEntry]) -> list[str]:
    """The queues that a canary may be sent to: one of an older release would drop it."""
    served = _queues(takers)
    return [queue for queue, workers in served.items() if all(each.answers_canaries for each in workers)]


def consuming_check(
    asked: CatalogueSnapshot, answers: RoundAnswers, now: CatalogueSnapshot, *, at: float
) -> Check:
    """Whether every worker, and every queue, takes what comes to it.

    Args:
        asked: What was advertised before the round.
        now: What is advertised after it: who has begun to drain, or has died, meanwhile, owes no answer.
        at: Epoch seconds.
    """
    there = {worker.process for worker in now.takers}
    standings = {worker: _standing(worker, answers, at) for worker in asked.takers if worker.process in there}
    served = _queues(standings)
    dead = [
        queue for queue in answers.queues if _is_dead(served.get(queue, ()), answers.queues[queue], standings)
    ]
    silent = [worker for worker, standing in standings.items() if standing is Standing.SILENT]
    idle = [worker for worker in standings if not worker.queues]
    told = _counted(standings.values())
    details = [*told, *(f"worker {_name(worker)} takes nothing that is sent to it" for worker in silent)]
    details += [f"nobody takes what comes to queue {queue}" for queue in dead]
    details += [f"worker {_name(worker)} takes from no queue" for worker in idle]
    counts = [*told, *([f"{len(dead)} of {len(answers.queues)} queues not served"] if dead else [])]
    counts += [f"{len(idle)} without a queue"] if idle else []
    works = any(standing in _GOOD for standing in standings.values())
    ok = works and not (silent or dead or idle)
    return Check("consuming", ok, "; ".join(details) or _NOBODY, "; ".join(counts) or _NOBODY)


def _standing(worker: WorkerEntry, answers: RoundAnswers, at: float) -> Standing:
    answer = answers.workers.get(worker.process)
    if not worker.answers_canaries:
        return Standing.OLDER
    if answer is not None:
        return Standing.FULL if answer.is_full else Standing.TAKES
    return Standing.STARTS if at - worker.started_at < STARTS_WITHIN_S else Standing.SILENT


def _is_dead(
    servers: Sequence[WorkerEntry], answer: CanaryAnswer | None, standings: Mapping[WorkerEntry, Standing]
) -> bool:
    """Whether nobody takes from a queue, though somebody serves it who has had the time to begin."""
    return answer is None and any(standings[worker] is not Standing.STARTS for worker in servers)


def _counted(standings: Collection[Standing]) -> list[str]:
    found = Counter(standings)
    told = [f"{found[standing]} {standing.value}" for standing in Standing if found[standing]]
    if told:
        count, _, words = told[0].partition(" ")
        told[0] = f"{count} of {len(standings)} workers {words}"
    return told


def _queues(workers: Iterable[WorkerEntry]) -> Mapping[str, list[WorkerEntry]]:
    served: dict[str, list[WorkerEntry]] = {}
    for worker in workers:
        for queue in worker.queues:
            served.setdefault(queue, []).append(worker)
    return served


def _name(worker: WorkerEntry) -> str:
    return f"{worker.name or worker.process} ({worker.process[:12]})"
