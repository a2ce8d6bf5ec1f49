"""The part of the lifecycle facade with which runs are steered and stopped; for plain code."""

from __future__ import annotations

from retinue.client.dispatch.sync_dispatch import SyncDispatch
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


class Controlling:
    """What `SubagentLifecycle` can do to runs that are under way."""

    _calls: SyncDispatch

    def steer(self, handle: object, text: str) -> bool:
        """Queues a message for the run's next iteration boundary.

        Returns:
            Whether it was queued. Blank, too long, ended, cancelled, unknown: False.
        """
        try:
            return self.send_steer(handle, text).state is SteerState.QUEUED
        except SubagentLifecycleError as error:
            if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.CAPACITY_REACHED):
                return False
            raise

    def send_steer(self, handle: object, text: str, *, steer_id: str | None = None) -> SteerReceipt:
        """Queues a message as `steer` does, and gives the receipt to ask about later.

        Args:
            steer_id: The message's identity: sent again under the same id it is not queued twice.
                None = a fresh one.

        Raises:
            SubagentLifecycleError: The text is blank or over 32,000 characters; the run takes no more.
        """
        message = steering.checked_text(text)
        name = steering.new_steer_id() if steer_id is None else steering.checked_steer_id(steer_id)
        target = self._calls.target(handle)
        if target is None:
            return SteerReceipt.unknown(handle)
        call = control.steer(
            target.key, steer_id=name, message=message, max_steers=self._calls.settings.max_steers
        )
        return steering.receipt(name, message, self._calls.connections().store.run(call))

    def steer_status(self, handle: object, steer_id: str) -> SteerReceipt:
        """What became of a message: queued, delivered in which iteration, or missed."""
        target = self._calls.target(handle)
        found = self._calls.found(target)
        return answers.find_receipt(found.steers, steer_id) if found else SteerReceipt.unknown(handle)

    def cancel(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        """Cancels the run and everything below it; accepted again when repeated.

        Args:
            reason: For the event log; the first 500 characters are kept.
        """
        text = steering.checked_reason(reason)
        target = self._calls.target(handle)
        if target is None:
            return SubagentCancelResult.unknown(handle)
        reply = self._calls.connections().store.run(control.cancel(target.key, reason=text))
        if reply.outcome == "ACCEPTED":
            self._calls.sweep(target.key)
        return answers.cancel_of(reply)

    def interrupt(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        """Stops this run alone, softly: its model is asked nothing more, and its children go on.

        It ends INTERRUPTED with its last text: at once where it is queued or waits; else a model request in
        flight is dropped, and a tool in flight finishes first. An object at work cannot be interrupted.

        Args:
            reason: For the event log; the first 500 characters are kept.

        Returns:
            Accepted again when repeated. Its state is how the run stands: INTERRUPTED, or what it was.
        """
        text = steering.checked_reason(reason)
        target = self._calls.target(handle)
        if target is None:
            return SubagentCancelResult.unknown(handle)
        connections = self._calls.connections()
        reply = connections.store.run(control.interrupt(target.key, reason=text))
        connections.wake(reply.wakeups)
        return answers.interrupt_of(reply)
