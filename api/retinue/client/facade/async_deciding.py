"""The asynchronous twin of deciding.py."""

from __future__ import annotations

from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.steps import decisions
from retinue.client.steps.decisions import Decide
from retinue.contract import PendingRequest, SubagentDecision
from retinue.store.operations import asking


class AsyncDeciding:
    """Mirrors `Deciding`."""

    _calls: AsyncDispatch

    async def pending(self, handle: object) -> tuple[PendingRequest, ...]:
        """Mirrors `Deciding.pending`."""
        target = await self._calls.target(handle)
        if target is None:
            return ()
        found: list[PendingRequest] = []
        cursor: str | None = ""
        while cursor is not None:
            part = await self._calls.connections().store.run(asking.read_requests(target.key, cursor=cursor))
            found += part.requests
            cursor = part.cursor or None
        return tuple(found)

    async def approve(self, handle: object, request_id: str) -> SubagentDecision:
        """Mirrors `Deciding.approve`."""
        return await self._decide(handle, request_id, decisions.approval)

    async def deny(self, handle: object, request_id: str, reason: str = "") -> SubagentDecision:
        """Mirrors `Deciding.deny`."""
        return await self._decide(handle, request_id, decisions.denial(reason))

    async def answer(self, handle: object, request_id: str, value: object) -> SubagentDecision:
        """Mirrors `Deciding.answer`."""
        decide = decisions.reply(value, max_bytes=self._calls.settings.tool_result_max_bytes)
        return await self._decide(handle, request_id, decide)

    async def _decide(self, handle: object, request_id: object, decide: Decide) -> SubagentDecision:
        target = await self._calls.target(handle)
        place = decisions.place_of(target, request_id) if target else None
        if place is None:
            return SubagentDecision.unknown(handle)
        connections = self._calls.connections()
        reply = await connections.store.run(decide(place))
        if reply.wakeup is not None:
            await connections.wake((reply.wakeup,))
        return decisions.decision_of(reply)
