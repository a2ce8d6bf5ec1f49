"""What passes between Celery's side of a worker and the side that executes runs.

Kept apart from both, so that neither imports the other: the pool hands a `ReceivedWakeUp` to a
`Runtime` and gets a `TaskReport` back, which is all that Celery's events will say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from retinue.broker.envelope import WakeUpKind
from retinue.contract.classification import ErrorClassification


@dataclass(frozen=True, slots=True)
class ReceivedWakeUp:
    """A wake-up that has a slot: ask the store what there is to do for this run."""

    tenant: str
    run_id: str
    number: int
    kind: WakeUpKind
    task_id: str


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The task did what there was to do, whatever became of the run."""

    line: str
    """One safe line for Flower ("suspended: 3 children"); never a prompt or an output."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The task ended its run as FAILED."""

    classification: ErrorClassification


@dataclass(frozen=True, slots=True)
class Revoked:
    """The run is under a cancel."""

    reason: str
    """For the log; one safe line."""


TaskReport = Succeeded | Failed | Revoked


class Runtime(Protocol):
    """Executes runs on the pool's event loop.

    Made by the factory that the setting `retinue_runtime` names, as factory(app, pool).
    """

    @property
    def takes_work(self) -> bool:
        """Whether wake-ups may be popped and handed over just now. Asked on the hub's thread: must not block.

        Whoever lets it become true again calls the pool's `look_again`.
        """
        ...

    async def start(self) -> None:
        """Get ready; the worker takes no wake-up before this returned, and ends if it raises."""

    async def run(self, task: ReceivedWakeUp) -> TaskReport:
        """Do what the store has for this run. What it raises is reported as INTERNAL_ERROR."""
        ...

    def revoke(self, run_id: str, terminate: bool) -> None:
        """Cancel a run, wherever it is; every worker is told. Called on the hub's thread: must not block."""

    def take_canary(self, nonce: str) -> None:
        """Say in the store that this process has taken a canary. Called on the runtime's loop."""

    async def stop(self, timeout_s: float) -> None:
        """Let runs reach a boundary and hand them back; no wake-up is handed over any more.

        Called again with 0 when there is no time left. What still runs after it returned is cancelled.

        Args:
            timeout_s: Seconds that calls in flight may take.
        """
