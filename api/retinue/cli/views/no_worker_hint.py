"""Says why a run does not start: no worker that lives can run its agent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from retinue.contract import RetinueError, SubagentState

if TYPE_CHECKING:
    from retinue.client import SubagentLifecycle

WAIT_S: Final = 2.0
"""How long a run may wait for its start before anything is said, in seconds."""


class NoWorkerHint:
    """Watches over the start of one run.

    Args:
        lifecycle: whose run it is.
        handle: the run.
    """

    def __init__(self, lifecycle: SubagentLifecycle, handle: object) -> None:
        self._lifecycle = lifecycle
        self._handle = handle
        self._due_at: float | None = time.monotonic() + WAIT_S

    def line(self, *, is_last: bool = False) -> str | None:
        """What to tell now, once; None = nothing (any more).

        Args:
            is_last: the wait is over, so that it is now or never.
        """
        if self._due_at is None or (time.monotonic() < self._due_at and not is_last):
            return None
        self._due_at = None
        try:
            return self._reason()
        except RetinueError:
            # A store that is away for a moment ends no watching.
            return None

    def _reason(self) -> str | None:
        from retinue.broker.routes import queue_for
        from retinue.broker.settings import load_settings
        from retinue.client.dispatch.connections import connections_for

        status = self._lifecycle.status(self._handle)
        if status.state is not SubagentState.PENDING or not status.agent:
            return None
        settings = load_settings()
        snapshot = connections_for(settings).catalogue.snapshot(fresh=True)
        if snapshot.can_run(status.agent):
            return None
        entry = snapshot.agent(status.agent)
        if entry is None and snapshot.workers:
            return None  # an agent by value, which any of them runs once it has a free slot
        queue = queue_for(status.agent, settings, entry.queue if entry else None)
        return f"no live worker runs {status.agent!r} (queue {queue}); start one: retinue worker your.module"
