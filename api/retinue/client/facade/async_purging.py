"""The asynchronous twin of purging.py."""

from __future__ import annotations

from typing import Any

from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.contract import SubagentPurgeResult


class AsyncPurging:
    """Mirrors `Purging`."""

    _calls: AsyncDispatch

    async def purge(self, handle: object, *, conversation: bool = True) -> SubagentPurgeResult:
        """Mirrors `Purging.purge`."""
        from retinue.client.steps.purge import Purge

        target = await self._calls.target(handle)
        if target is None:
            return SubagentPurgeResult.unknown(handle)
        store, steps = self._calls.connections().store, Purge(target, conversation=conversation).steps()
        reply: Any = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = await store.run(call)
