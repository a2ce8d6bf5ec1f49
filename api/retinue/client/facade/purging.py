"""The part of the lifecycle facade that removes runs before their time; for plain code."""

from __future__ import annotations

from typing import Any

from retinue.client.dispatch.sync_dispatch import SyncDispatch
from retinue.contract import SubagentPurgeResult


class Purging:
    """What `SubagentLifecycle` can do about runs that have ended."""

    _calls: SyncDispatch

    def purge(self, handle: object, *, conversation: bool = True) -> SubagentPurgeResult:
        """Removes an ended run and all runs below it at once: requests, results, messages, events, all of it.

        A root's goes with its conversation: every turn of it, before and after this one, and all below them.
        A child's goes alone; its root and what is above it stay, and so do the root's log, without texts of
        what was removed, and what the run's parent was told. A purge that was broken off is taken up again by
        the same call.

        Args:
            conversation: False = of a root, keep the messages, and what they were asked for, so that
                `continue_run` goes on: as if `result_ttl_seconds` were over for this run.

        Returns:
            Refused, with `live_run_id`, where a run that would go has not ended. Unknown where nothing is
            kept under the handle, as after a purge.
        """
        from retinue.client.steps.purge import Purge

        target = self._calls.target(handle)
        if target is None:
            return SubagentPurgeResult.unknown(handle)
        store, steps = self._calls.connections().store, Purge(target, conversation=conversation).steps()
        reply: Any = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = store.run(call)
