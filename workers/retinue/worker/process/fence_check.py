"""Runs that this process works on though another attempt owns them, before a write of its own is refused.

A model call or a tool may go on for minutes without a write. Where others took the run over meanwhile, as
they do while this process cannot reach the store, all of that is for nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from retinue.store.operations import reading
from retinue.store.store import AsyncStore
from retinue.worker.process.roll import Roll
from retinue.worker.run.held import HeldRun

_log = logging.getLogger("retinue.worker")


class FenceCheck:
    """Compares the fence of held runs with that on their record.

    Args:
        store: The store.
        roll: The runs that the process holds.
    """

    def __init__(self, store: AsyncStore, roll: Roll) -> None:
        self._store = store
        self._roll = roll

    async def look(self, members: Collection[str] | None = None) -> None:
        """Stops what is not this process's any more.

        Args:
            members: Of the runs to look at; None = all that are held.

        Raises:
            StoreError: The store could not be asked.
        """
        held = [run for run in self._roll.held() if members is None or run.key.member in members]
        await asyncio.gather(*map(self._look_at, held))

    async def _look_at(self, run: HeldRun) -> None:
        before = run.releases
        view = await self._store.run(reading.read_status(run.key))
        if before % 2 or run.releases != before:
            # It may be this process itself that gave the run up; the reply to that tells.
            return
        if view is None or not view.record.belongs_to(run.fence.epoch, run.fence.token):
            run.lose()
            _log.warning("run.lost run=%s agent=%s", run.key.run_id, run.spec.agent)
