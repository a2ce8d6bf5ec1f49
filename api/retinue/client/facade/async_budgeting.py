"""The asynchronous twin of budgeting.py."""

from __future__ import annotations

from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.facade.budgeting import checked_caps, raise_of
from retinue.contract import BudgetRaise
from retinue.store.operations.budgets import Raised, raise_budget


class AsyncBudgeting:
    """Mirrors `Budgeting`."""

    _calls: AsyncDispatch

    async def raise_budget(self, handle: object, **caps: object) -> BudgetRaise:
        """Mirrors `Budgeting.raise_budget`."""
        asked = checked_caps(caps)
        target = await self._calls.target(handle)
        if target is None:
            return BudgetRaise.unknown(handle)
        connections = self._calls.connections()
        reply = await connections.store.run(raise_budget(target.key, asked))
        if isinstance(reply, Raised):
            await connections.wake(reply.woken)
        return raise_of(reply, asked)
