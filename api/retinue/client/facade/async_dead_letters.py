"""The asynchronous twin of dead_letters.py."""

from __future__ import annotations

from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.steps.replaying import Replay, checked_scope, letter_key, letter_reads, newest
from retinue.contract import DeadLetter, SubagentHandle
from retinue.store.operations import dead_letters, reading


class AsyncDeadLetters:
    """Mirrors `DeadLetters`."""

    _calls: AsyncDispatch

    async def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetter, ...]:
        """Mirrors `DeadLetters.dead_letters`."""
        scope = checked_scope(self._calls.scope)
        found = await self._calls.connections().store.run_all(letter_reads(scope, limit))
        return newest(found, limit)

    async def dead_letter(self, run: object) -> DeadLetter | None:
        """Mirrors `DeadLetters.dead_letter`."""
        scope = checked_scope(self._calls.scope)
        key = letter_key(scope, run)
        if key is None:
            return None
        return await self._calls.connections().store.run(
            dead_letters.read_letter(key, session_id=scope.session_id)
        )

    async def replay(self, run: object) -> SubagentHandle:
        """Mirrors `DeadLetters.replay`."""
        calls = self._calls
        replay = Replay.of(await self.dead_letter(run))
        kept = None
        if replay.thread_id is not None:
            key = letter_key(calls.scope, replay.run)
            assert key is not None
            kept = await calls.connections().store.run(reading.read_conversation(key, replay.thread_id))
        handles = await calls.launch([replay.request], thread=replay.thread(kept), letter=replay.letter)
        return handles[0]

    async def discard(self, run: object) -> bool:
        """Mirrors `DeadLetters.discard`."""
        scope = checked_scope(self._calls.scope)
        key = letter_key(scope, run)
        if key is None:
            return False
        return await self._calls.connections().store.run(
            dead_letters.discard(key, session_id=scope.session_id)
        )
