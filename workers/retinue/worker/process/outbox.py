"""Telling of ended runs: the application by its own task, and hooks of this process.

Whoever ended a run tells at once; what is left, every process with hooks and the elected reaper look for.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Sequence
from typing import Final

from retinue.broker.keyring_store import AsyncKeyringStore
from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.notices import Notice, Sends
from retinue.broker.reaper.each_run import each_run
from retinue.client.launching.ticket import Ticket
from retinue.client.reading.answers import mint
from retinue.contract import PARTITIONS, RetinueError
from retinue.store.call import RunKey
from retinue.store.operations import outbox
from retinue.store.operations.outbox import Letter, NotTaken, Told
from retinue.store.store import AsyncStore
from retinue.worker.run.hook_calls import HookCalls

_log = logging.getLogger("retinue.worker")
_AT_ONCE: Final = 50
"""Letters that a look takes: of all partitions together for notices, of each for hooks."""

_NOTICE_HELD_MS: Final = 15_000
"""How long a notice may take to send before another process may send it."""

_LOOK_EVERY_S: Final = 1.0


class Outbox:
    """Tells of ended runs what this process can tell.

    Args:
        store: The store.
        link: The same, for plain commands.
        ring: Signs handles.
        notifier: Sends the application's tasks.
        hooks: Of this process.
        capable: The agents that it runs, as `running.capability` writes them.
    """

    def __init__(
        self,
        store: AsyncStore,
        link: Pipelines,
        ring: AsyncKeyringStore,
        notifier: Sends,
        hooks: HookCalls,
        capable: str,
    ) -> None:
        self._store = store
        self._link = link
        self._ring = ring
        self._notifier = notifier
        self._hooks = hooks
        self._capable = capable
        self._telling: set[asyncio.Task[None]] = set()
        self._passed_over = [0] * PARTITIONS

    def ended(self, run: RunKey, tells: str) -> None:
        """Tells of a run that this process has ended, without keeping anyone waiting.

        Args:
            tells: The letters of whom to tell.
        """
        if tells:
            task = asyncio.create_task(self._tell(run, tells))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def look_for_notices(self) -> None:
        """Sends what is left to be sent; to be called by the elected reaper.

        Raises:
            StoreError: The store could not be asked.
        """
        pages = await self._pages(Told.TASK, [0] * PARTITIONS)
        members = [member for page in pages for member in page]
        random.shuffle(members)  # one partition's must not keep back the others'
        await self._send(await each_run(members[:_AT_ONCE], self._take_notice))

    async def watch_for_ends(self) -> None:
        """Tells hooks of what others ended, or did not tell of to the end; until it is cancelled."""
        while True:
            try:
                await self._look_for_ends()
            except RetinueError as fault:
                _log.warning("outbox.look_failed error=%s", type(fault).__name__)
            except Exception as fault:
                _log.error("outbox.look_failed error=%s", type(fault).__name__, exc_info=fault)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def close(self, timeout_s: float) -> None:
        """Lets what is being told be told; what is not stays in the store."""
        telling = set(self._telling)
        if telling:
            _, late = await asyncio.wait(telling, timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1)

    async def _tell(self, run: RunKey, tells: str) -> None:
        try:
            if Told.TASK in tells and (letter := await self._take_notice(run)):
                await self._send([letter])
            if Told.HOOKS in tells and self._hooks.are_told_of_ends:
                await self._tell_hooks(run)
        except RetinueError as fault:
            _log.warning("outbox.not_told run=%s error=%s", run.run_id, type(fault).__name__)
        except Exception as fault:
            _log.error("outbox.not_told run=%s error=%s", run.run_id, type(fault).__name__, exc_info=fault)

    async def _take_notice(self, run: RunKey) -> Letter | None:
        call = outbox.take(run, Told.TASK, token=secrets.token_hex(8), held_ms=_NOTICE_HELD_MS)
        taken = await self._store.run(call)
        return None if isinstance(taken, NotTaken) else taken

    async def _send(self, letters: Sequence[Letter]) -> None:
        notices: dict[str, tuple[Letter, Notice]] = {}
        for letter in letters:
            notice = await self._notice(letter)
            if notice is not None:
                notices[notice.run_id] = letter, notice
        if not notices:
            return
        for sent in await self._notifier.send([notice for _, notice in notices.values()]):
            letter, _ = notices[sent.run_id]
            await self._store.run(outbox.told(letter.run, Told.TASK))

    async def _notice(self, letter: Letter) -> Notice | None:
        try:
            ticket = Ticket.from_json(letter.request_json)
        except (ValueError, KeyError, TypeError) as fault:
            # A newer version wrote it, which will send it; else it expires.
            _log.error("notice.unreadable run=%s error=%s", letter.run.run_id, type(fault).__name__)
            return None
        asked = ticket.request.on_done
        if asked is None:
            return None
        handle = mint(
            await self._ring.ring(),
            letter.run.tenant,
            letter.record.session_id,
            ticket,
            run_id=letter.run.run_id,
            depth=letter.record.depth,
            created_at=letter.record.created_ms / 1000,
        )
        return Notice(letter.run.run_id, asked.task, asked.queue, handle.to_dict())

    async def _look_for_ends(self) -> None:
        pages = await self._pages(Told.HOOKS, self._passed_over)
        for number, members in enumerate(pages):
            told = await each_run(members, self._tell_hooks)
            # Those of agents that only others have must not stand before the rest for ever.
            is_stuck = len(members) == _AT_ONCE and not told
            self._passed_over[number] = self._passed_over[number] + _AT_ONCE if is_stuck else 0

    async def _tell_hooks(self, run: RunKey) -> RunKey | None:
        taken = await self._store.run(
            outbox.take(
                run,
                Told.HOOKS,
                token=secrets.token_hex(8),
                held_ms=round(self._hooks.longest_stop_s * 1000),
                capable=self._capable,
            )
        )
        if isinstance(taken, NotTaken):
            return None
        await self._hooks.tell_of_end(taken)
        await self._store.run(outbox.told(run, Told.HOOKS))
        return run

    async def _pages(self, whom: Told, skips: Sequence[int]) -> list[list[str]]:
        """What waits in each partition."""
        seconds, micros = await self._link.execute("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        calls = [
            outbox.read_outbox(number, whom, now_ms=now_ms, skip=skip, most=_AT_ONCE)
            for number, skip in enumerate(skips)
        ]
        replies = await run_pipeline(self._link, [call.command for call in calls])
        return [call.parse(reply) for call, reply in zip(calls, replies, strict=True)]
