"""Calling the application's hooks: one at a time for a run, each for so long, faults contained."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from weakref import WeakValueDictionary

from retinue.agents.hooks import AnyHook, Hook, HookPoint, RunMoment, RunStopped
from retinue.client.launching.ticket import metadata_in
from retinue.client.reading.answers import usage_of
from retinue.store.operations.outbox import Letter
from retinue.worker.run.cut import AT_ONCE_S, let_go
from retinue.worker.run.foreign import foreign_result, start_foreign
from retinue.worker.run.held import HeldRun

_log = logging.getLogger("retinue.worker")
_SLACK_S: Final = 5.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class HookCalls:
    """The hooks of a worker process.

    Args:
        hooks: In the order in which they are called.
        timeout_s: How long one call is waited for.
    """

    def __init__(self, hooks: Sequence[AnyHook], timeout_s: float) -> None:
        self._hooks: defaultdict[HookPoint, list[Hook[Any]]] = defaultdict(list)
        for hook in hooks:
            self._hooks[hook.point].append(hook)
        self._timeout_s = timeout_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def are_told_of_ends(self) -> bool:
        """Whether there are hooks for a run's end."""
        return bool(self._hooks.get(HookPoint.STOP))

    @property
    def longest_stop_s(self) -> float:
        """How long telling of one end may take, beside what is told of the same run at the time."""
        return len(self._hooks.get(HookPoint.STOP, ())) * (self._timeout_s + AT_ONCE_S) + _SLACK_S

    async def tell(
        self, point: HookPoint, kind: Callable[..., RunMoment], run: HeldRun, **what: object
    ) -> None:
        """Tells the hooks of a point of what has happened to a held run.

        Args:
            kind: What they are given.
            what: Its fields beside those of every moment.
        """
        if self._hooks.get(point):
            await self._call(point, kind(**_of_held(run), **what))

    async def tell_of_end(self, letter: Letter) -> None:
        """Tells that a run has ended."""
        if self._hooks.get(HookPoint.STOP):
            await self._call(HookPoint.STOP, _stopped(letter))

    async def _call(self, point: HookPoint, moment: RunMoment) -> None:
        turn = self._turns.setdefault(moment.run_id, asyncio.Lock())
        async with turn:
            for hook in self._hooks[point]:
                await self._one(hook, moment)

    async def _one(self, hook: Hook[Any], moment: RunMoment) -> None:
        work = start_foreign(lambda: hook(moment), is_async=hook.is_async, name=f"hook:{hook.name}")
        try:
            await asyncio.wait({work}, timeout=self._timeout_s)
        finally:
            # An OS thread goes on; nothing can stop it.
            is_late = not work.done()
            await let_go([work], within_s=AT_ONCE_S)
        where = f"point={hook.point} hook={hook.name} run={moment.run_id}"
        if is_late:
            _log.error("hook.timed_out %s timeout_s=%g", where, self._timeout_s)
            return
        try:
            foreign_result(work)
        except Exception as fault:
            # Without its text, which may quote what the run works on.
            _log.error("hook.failed %s error=%s", where, type(fault).__name__)


def _of_held(run: HeldRun) -> dict[str, Any]:
    return {
        "tenant": run.key.tenant,
        "session_id": run.record.session_id,
        "run_id": run.key.run_id,
        "root_id": run.record.root_id,
        "parent_id": run.record.parent_id,
        "agent": run.spec.agent,
        "depth": run.record.depth,
        "attempt": run.fence.epoch,
        "metadata": run.ticket.request.metadata,
    }


def _stopped(letter: Letter) -> RunStopped:
    record = letter.record
    return RunStopped(
        tenant=letter.run.tenant,
        session_id=record.session_id,
        run_id=letter.run.run_id,
        root_id=record.root_id,
        parent_id=record.parent_id,
        agent=record.agent,
        depth=record.depth,
        attempt=record.epoch,
        metadata=metadata_in(letter.request_json),
        state=record.state,
        classification=record.classification,
        usage=usage_of(record),
        tree_usage=record.ended_tree_usage if usage_of(record) else None,
        created_at=_at(record.created_ms),
        started_at=None if record.started_ms is None else _at(record.started_ms),
        ended_at=_at(record.finished_ms or record.updated_ms),
    )


def _at(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
