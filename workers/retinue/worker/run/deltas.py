"""What a model writes, piece by piece, for who listens: while nobody does, nothing is sent or asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from retinue.contract import StoreError
from retinue.store.operations import passing
from retinue.store.store import AsyncStore
from retinue.worker.run.held import HeldRun

EVERY_S: Final = 0.1
"""Between two messages of one run, at the least."""
MOST_CHARS: Final = 16_000
"""Of one message."""
BEHIND_CHARS: Final = 64_000
"""What may wait to be sent; of more the beginning is left out, which the offset of the next message shows."""
_FLUSH_S: Final = 1.0


class DeltaLine:
    """Publishes the text of one request, one message at a time. Enter it for as long as the request lasts.

    Args:
        store: One that does not wait: a message that it does not take is dropped.
        run: Whose.
        iteration: Of the request.
    """

    def __init__(self, store: AsyncStore, run: HeldRun, iteration: int) -> None:
        self._store = store
        self._run = run
        self._iteration = iteration
        self._pieces: list[str] = []  # kept from the first on, for who begins to listen meanwhile
        self._offset = 0
        self._task: asyncio.Task[None] | None = None

    def feed(self, piece: str) -> None:
        """Takes a piece, and returns at once."""
        self._pieces.append(piece)
        if self._run.is_heard and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def flush(self) -> None:
        """Sends the rest, so that it precedes the record of the answer; late is as good as never."""
        if not self._run.is_heard:
            return
        self._stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                while self._pieces:
                    await self._publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        while self._pieces:
            await self._publish()
            await asyncio.sleep(EVERY_S)
        self._task = None

    async def _publish(self) -> None:
        waiting = "".join(self._pieces)
        left_out = max(0, len(waiting) - BEHIND_CHARS)
        piece, rest = waiting[left_out : left_out + MOST_CHARS], waiting[left_out + MOST_CHARS :]
        offset = self._offset + left_out
        # Taken before it is sent: what is cut off on its way is not sent twice.
        self._pieces, self._offset = [rest] if rest else [], offset + len(piece)
        call = passing.publish_delta(
            self._run.key, self._run.record.root_id, iteration=self._iteration, offset=offset, piece=piece
        )
        with suppress(StoreError):
            await self._store.run(call)
