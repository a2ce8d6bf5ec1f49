"""The part of the lifecycle facade with which a human decides what runs ask; for plain code."""

from __future__ import annotations

from retinue.client.dispatch.sync_dispatch import SyncDispatch
from retinue.client.steps import decisions
from retinue.client.steps.decisions import Decide
from retinue.contract import PendingRequest, SubagentDecision
from retinue.store.operations import asking


class Deciding:
    """What `SubagentLifecycle` can do about requests for approval and input.

    A decision by a handle reaches the handle's run and every run below it.
    """

    _calls: SyncDispatch

    def pending(self, handle: object) -> tuple[PendingRequest, ...]:
        """What the run and those below it ask of a human now, parents first; none for an unknown handle."""
        target = self._calls.target(handle)
        if target is None:
            return ()
        found: list[PendingRequest] = []
        cursor: str | None = ""
        while cursor is not None:
            part = self._calls.connections().store.run(asking.read_requests(target.key, cursor=cursor))
            found += part.requests
            cursor = part.cursor or None
        return tuple(found)

    def approve(self, handle: object, request_id: str) -> SubagentDecision:
        """Lets a call be run, once and with exactly the arguments that were asked about.

        Args:
            handle: Of the asking run, or of one above it.
            request_id: As `pending` gives it.

        Returns:
            Whether it was accepted. Unknown, decided before, out of time, cancelled or ended: not, with why.
        """
        return self._decide(handle, request_id, decisions.approval)

    def deny(self, handle: object, request_id: str, reason: str = "") -> SubagentDecision:
        """Refuses a call, be it for an approval or for an answer; the model is told so.

        Args:
            handle, request_id: As for `approve`.
            reason: For the model and the event log; the first 500 characters are kept.

        Returns:
            As for `approve`.

        Raises:
            SubagentLifecycleError: The reason is no text.
        """
        return self._decide(handle, request_id, decisions.denial(reason))

    def answer(self, handle: object, request_id: str, value: object) -> SubagentDecision:
        """Gives the result of a call that the caller is to answer.

        Args:
            handle, request_id: As for `approve`.
            value: A text, or JSON values; at most tool_result_max_bytes.

        Returns:
            As for `approve`.

        Raises:
            SubagentLifecycleError: The value is neither, or too long.
        """
        decide = decisions.reply(value, max_bytes=self._calls.settings.tool_result_max_bytes)
        return self._decide(handle, request_id, decide)

    def _decide(self, handle: object, request_id: object, decide: Decide) -> SubagentDecision:
        target = self._calls.target(handle)
        place = decisions.place_of(target, request_id) if target else None
        if place is None:
            return SubagentDecision.unknown(handle)
        connections = self._calls.connections()
        reply = connections.store.run(decide(place))
        if reply.wakeup is not None:
            connections.wake((reply.wakeup,))
        return decisions.decision_of(reply)
