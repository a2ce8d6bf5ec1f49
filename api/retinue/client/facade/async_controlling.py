"""The asynchronous twin of controlling.py."""

from __future__ import annotations

from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.reading import answers
from retinue.client.steps import steering
from retinue.contract import (
    ErrorCode,
    SteerReceipt,
    SteerState,
    SubagentCancelResult,
    SubagentLifecycleError,
)
from retinue.store.operations import control


class AsyncControlling:
    """Mirrors `Controlling`."""

    _calls: AsyncDispatch

    async def steer(self, handle: object, text: str) -> bool:
        """Mirrors `Controlling.steer`."""
        try:
            return (await self.send_steer(handle, text)).state is SteerState.QUEUED
        except SubagentLifecycleError as error:
            if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.CAPACITY_REACHED):
                return False
            raise

    async def send_steer(self, handle: object, text: str, *, steer_id: str | None = None) -> SteerReceipt:
        """Mirrors `Controlling.send_steer`."""
        message = steering.checked_text(text)
        name = steering.new_steer_id() if steer_id is None else steering.checked_steer_id(steer_id)
        target = await self._calls.target(handle)
        if target is None:
            return SteerReceipt.unknown(handle)
        call = control.steer(
            target.key, steer_id=name, message=message, max_steers=self._calls.settings.max_steers
        )
        return steering.receipt(name, message, await self._calls.connections().store.run(call))

    async def steer_status(self, handle: object, steer_id: str) -> SteerReceipt:
        """Mirrors `Controlling.steer_status`."""
        target = await self._calls.target(handle)
        found = await self._calls.found(target)
        return answers.find_receipt(found.steers, steer_id) if found else SteerReceipt.unknown(handle)

    async def cancel(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        """Mirrors `Controlling.cancel`."""
        text = steering.checked_reason(reason)
        target = await self._calls.target(handle)
        if target is None:
            return SubagentCancelResult.unknown(handle)
        reply = await self._calls.connections().store.run(control.cancel(target.key, reason=text))
        if reply.outcome == "ACCEPTED":
            await self._calls.sweep(target.key)
        return answers.cancel_of(reply)

    async def interrupt(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        """Mirrors `Controlling.interrupt`."""
        text = steering.checked_reason(reason)
        target = await self._calls.target(handle)
        if target is None:
            return SubagentCancelResult.unknown(handle)
        connections = self._calls.connections()
        reply = await connections.store.run(control.interrupt(target.key, reason=text))
        await connections.wake(reply.wakeups)
        return answers.interrupt_of(reply)
