"""The part of the lifecycle facade that deals with runs that were given up; for plain code."""

from __future__ import annotations

from retinue.client.dispatch.sync_dispatch import SyncDispatch
from retinue.client.steps.replaying import Replay, checked_scope, letter_key, letter_reads, newest
from retinue.contract import DeadLetter, SubagentHandle
from retinue.store.operations import dead_letters, reading


class DeadLetters:
    """What `SubagentLifecycle` can do about runs that ended because no worker could go on with them.

    A letter outlives its run: it is kept for 7 days, of a tenant at most 1,000 in one partition (all of a
    session lie in one), the newest. `run` is a run id, its handle, or the letter.
    """

    _calls: SyncDispatch

    def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetter, ...]:
        """The session's dead letters, newest first, without their requests; an operator's: the tenant's.

        Args:
            limit: Longest answer.
        """
        scope = checked_scope(self._calls.scope)
        found = self._calls.connections().store.run_all(letter_reads(scope, limit))
        return newest(found, limit)

    def dead_letter(self, run: object) -> DeadLetter | None:
        """One dead letter, with its request; None = there is none (any more), or it is another session's."""
        scope = checked_scope(self._calls.scope)
        key = letter_key(scope, run)
        if key is None:
            return None
        return self._calls.connections().store.run(dead_letters.read_letter(key, session_id=scope.session_id))

    def replay(self, run: object) -> SubagentHandle:
        """Starts the request of a dead letter again, as a new run in its session, and takes the letter away.

        The new run's status names the lost one in `replays`. It takes over no correlation id. A run that went
        on with a conversation does so again.

        Returns:
            The new run's handle.

        Raises:
            SubagentLifecycleError: UNKNOWN_HANDLE: there is no such letter for this session, or no longer.
                The run was a child. Else as `launch`.
        """
        calls = self._calls
        replay = Replay.of(self.dead_letter(run))
        kept = None
        if replay.thread_id is not None:
            key = letter_key(calls.scope, replay.run)
            assert key is not None
            kept = calls.connections().store.run(reading.read_conversation(key, replay.thread_id))
        return calls.launch([replay.request], thread=replay.thread(kept), letter=replay.letter)[0]

    def discard(self, run: object) -> bool:
        """Throws a dead letter away; False = there is none (any more), or it is another session's."""
        scope = checked_scope(self._calls.scope)
        key = letter_key(scope, run)
        if key is None:
            return False
        return self._calls.connections().store.run(dead_letters.discard(key, session_id=scope.session_id))
