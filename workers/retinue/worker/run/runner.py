"""What runs an agent: one protocol for Retinue's own loop and for whatever else is adapted."""

from __future__ import annotations

from typing import ClassVar, Protocol

from retinue.agents.effective.effective import Capabilities, RunnerKind
from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.run.held import HeldRun
from retinue.worker.run.loop import AgentLoop
from retinue.worker.run.objects import ObjectRun
from retinue.worker.run.outcome import Finish, Outcome
from retinue.worker.services import Services


class Runner(Protocol):
    """Runs one attempt of one run."""

    capabilities: ClassVar[Capabilities]
    """What can be done with its runs; nobody asks it for more."""

    async def drive(self, *, overtaken: bool = False) -> Outcome:
        """Goes on until the run is to end, waits elsewhere, or is not this attempt's any more.

        A cancel and the deadline end it too. What it raises ends the run as INTERNAL_ERROR.

        Args:
            overtaken: A steer came before the run could end, where the runner can be steered: go on.
        """
        ...


def runner_of(services: Services, run: HeldRun) -> Runner:
    """What runs a run's agent on this worker."""
    if run.spec.runner is RunnerKind.LOOP:
        return AgentLoop(services, run)
    target = services.registry.agent(run.spec.agent).target
    return AgentLoop(services, run) if target is None else ObjectRun(services, run, target)


def lost_for_good(runner: Runner, run: HeldRun) -> Finish | None:
    """How a run ends whose earlier attempt was lost with all that it had done; None = it goes on, or anew."""
    if not run.was_attempted_before or runner.capabilities.can_checkpoint or run.spec.restartable:
        return None
    return Finish(
        SubagentState.FAILED,
        ErrorClassification.WORKER_LOST,
        message="its worker was lost, and the agent is not restartable",
    )
