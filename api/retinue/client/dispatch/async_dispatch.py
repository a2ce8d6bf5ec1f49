"""The asynchronous twin of sync_dispatch.py."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
)
from typing import TYPE_CHECKING, TypeVar

from retinue.client.clock import WaitClock
from retinue.client.dispatch.async_connections import AsyncConnections, async_connections_for
from retinue.client.dispatch.dispatch import Dispatch, Slot
from retinue.client.launching.batch import LaunchBatch
from retinue.client.launching.seed import LaunchSeed
from retinue.client.launching.ticket import JoinedThread
from retinue.client.reading import answers
from retinue.client.reading.reads import chunks, places_of
from retinue.client.reading.waited import Awaited, LastOfPart, Views, WaitedRuns
from retinue.client.scope import Scope, Target
from retinue.contract import (
    DeadLetter,
    Phase,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentTerminalState,
    WaitUntil,
)
from retinue.store.call import RunKey, ScriptCall
from retinue.store.connections.async_subscription import AsyncWake
from retinue.store.operations import control, reading
from retinue.store.operations.reading import Outcome, RunResult, RunView

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.client.launching.planning import LaunchPlanner

T = TypeVar("T")


class AsyncDispatch(Dispatch):
    """Mirrors `SyncDispatch`.

    Args:
        seed: Of its one launch. None = each launch is a new one.
    """

    def __init__(self, scope: Scope, settings: Settings | None, seed: LaunchSeed | None = None) -> None:
        super().__init__(scope, settings)
        self._seed = seed
        self._connected: AsyncConnections | None = None
        self._planner: tuple[AsyncConnections, LaunchPlanner] | None = None

    def connections(self) -> AsyncConnections:
        """The running loop's connections.

        Raises:
            SettingsError: No store is set.
        """
        found = self._connected
        is_here = found is not None and found.loop is asyncio.get_running_loop()
        if found is None or not is_here or found.closed or found.pid != os.getpid():
            found = self._connected = async_connections_for(self.settings)
        return found

    async def close(self) -> None:
        """Mirrors `SyncDispatch.close`."""
        found, self._connected, self._planner = self._connected, None, None
        if found is not None and found.pid == os.getpid() and not found.loop.is_closed():
            await found.close()

    async def target(self, handle: object) -> Target | None:
        """Mirrors `SyncDispatch.target`."""
        connections, scope = self.connections(), self.scope
        candidate = scope.candidate(handle)
        if candidate is None or not await connections.keyring.verify(scope.tenant, candidate):
            return None
        return scope.target(candidate)

    async def owned_run(self, handle: object) -> tuple[RunKey, RunView] | None:
        """Mirrors `SyncDispatch.owned_run`."""
        scope = self.scope
        target = None if isinstance(handle, str) else await self.target(handle)
        key = target.key if target else scope.run_key(handle)
        view = await self.view(key) if key else None
        return (key, view) if key and view and scope.owns(view.record) else None

    async def handle(self, run_id: object) -> SubagentHandle | None:
        """Mirrors `SyncDispatch.handle`."""
        key = self.scope.run_key(run_id)
        origin = await self.connections().store.run(reading.read_origin(key)) if key else None
        if key is None or origin is None or not self.scope.owns(origin.record):
            return None
        ring = await self.connections().keyring.ring()
        return answers.handle_of_origin(ring, key.tenant, key.run_id, origin)

    async def view(self, key: RunKey) -> RunView | None:
        """Mirrors `SyncDispatch.view`."""
        return await self.connections().store.run(reading.read_status(key))

    async def state(self, key: RunKey) -> RunView | None:
        """Mirrors `SyncDispatch.state`."""
        return await self.connections().store.run(reading.read_state(key))

    async def views(self, run_keys: Sequence[RunKey]) -> dict[str, RunView | None]:
        """Mirrors `SyncDispatch.views`."""
        return await self._read_all(reading.read_status, run_keys)

    async def lacking_worker(self, views: Sequence[RunView | None]) -> list[bool]:
        """Mirrors `SyncDispatch.lacking_worker`."""
        if not any(view is not None and view.record.phase is Phase.QUEUED for view in views):
            return [False] * len(views)
        catalogue = self.connections().catalogue
        lacking = answers.lacking_worker(views, await catalogue.snapshot())
        if not any(lacking):
            return lacking
        return answers.lacking_worker(views, await catalogue.snapshot(fresh=True))

    async def found(self, target: Target | None) -> RunResult | None:
        """Mirrors `SyncDispatch.found`."""
        return await self.connections().store.run(reading.read_result(target.key)) if target else None

    async def outcome(self, key: RunKey) -> Outcome:
        """Mirrors `SyncDispatch.outcome`."""
        return await self.connections().store.run(reading.read_outcome(key))

    async def outcomes(self, targets: Sequence[Target | None]) -> dict[str, Outcome]:
        """Mirrors `SyncDispatch.outcomes`."""
        return await self._read_all(reading.read_outcome, [target.key for target in targets if target])

    async def launch(
        self,
        requests: Sequence[SubagentLaunchRequest],
        *,
        thread: JoinedThread | None = None,
        letter: DeadLetter | None = None,
    ) -> tuple[SubagentHandle, ...]:
        """Mirrors `SyncDispatch.launch`."""
        connections = self.connections()
        scope = self.scope if letter is None else Scope(self.scope.tenant, letter.session_id)
        replays, seed = letter.run_id if letter else None, self._seed
        batch = LaunchBatch(requests, scope, thread=thread, replays=replays, seed=seed)
        ring, store = await connections.keyring.ring(), connections.store
        if seed is not None and seed.is_repeat:
            for key in batch.run_keys():
                origin = await store.run(reading.read_origin(key))
                kept = None if origin else await store.run(reading.read_request(key))
                batch.recall(ring, key, origin, kept)
        await self._plan(connections, batch)
        while (call := batch.call()) is not None:
            wakeups = () if self.settings.same_server else batch.wakeups()
            reply = await store.run(call, unknown=lambda: batch.draft(ring))
            existing = batch.settle(ring, reply)
            if existing is None:
                await connections.wake(wakeups)
            else:
                batch.found(ring, existing, await store.run(reading.read_result(existing)))
        return batch.handles()

    async def sweep(self, key: RunKey) -> None:
        """Mirrors `SyncDispatch.sweep`."""
        connections = self.connections()
        cursor: str | None = ""
        try:
            while cursor is not None:
                swept = await connections.store.run(control.sweep(key, cursor=cursor))
                await connections.wake(swept.wakeups)
                cursor = swept.cursor or None
        except SubagentLifecycleError:
            # The cancel itself was accepted, and its mark stands.
            return

    async def wait_for(
        self, handles: Sequence[object], clock: WaitClock, until: WaitUntil = WaitUntil.END
    ) -> tuple[SubagentTerminalState, ...]:
        """Mirrors `SyncDispatch.wait_for`."""
        targets = [(handle, await self.target(handle)) for handle in handles]
        waited = WaitedRuns(targets, clock, until)
        with self.slot() as slot:
            views = await self._awaited(waited, clock, slot)
        return waited.answer(views, lacking=await self._lacking(views, clock))

    async def wait_for_all(
        self, handles: Sequence[object], clock: WaitClock
    ) -> tuple[SubagentTerminalState, ...]:
        """Mirrors `SyncDispatch.wait_for_all`."""
        targets = [(handle, await self.target(handle)) for handle in handles]
        waited = WaitedRuns(targets, clock)
        views: dict[str, RunView | None] = {}
        with self.slot() as slot:
            for part in waited.parts():
                rest: LastOfPart | None = part
                while rest is not None:
                    views |= await self._awaited(rest, clock, slot)
                    rest = rest.rest(views)
        return waited.answer_all(views, lacking=await self._lacking(views, clock))

    def watching(
        self, run_keys: Sequence[RunKey], *, confirm_s: float | None = None
    ) -> AbstractAsyncContextManager[AsyncWake]:
        """Mirrors `SyncDispatch.watching`."""
        return self.connections().subscriptions.watch_any(places_of(run_keys), confirm_s=confirm_s)

    async def _read_all(
        self,
        read: Callable[[RunKey], ScriptCall[T]],
        run_keys: Sequence[RunKey],
        *,
        limit_s: float | None = None,
    ) -> dict[str, T]:
        store, found = self.connections().store, dict[str, T]()
        for chunk in chunks(run_keys):
            replies = await store.run_all([read(key) for key in chunk], limit_s=limit_s)
            found.update(zip((key.run_id for key in chunk), replies, strict=True))
        return found

    async def _awaited(self, awaited: Awaited, clock: WaitClock, slot: Slot) -> dict[str, RunView | None]:
        if not awaited.keys:
            return {}
        usual_s = self.settings.store_timeout_seconds
        wake: AsyncWake | None = None
        async with AsyncExitStack() as stack:
            if self._is_heard(awaited.watched) and not clock.is_over:
                wake = await stack.enter_async_context(self.watching(awaited.watched))
            while True:
                pause_s = clock.pause()
                try:
                    limit_s = clock.read_limit_s(usual_s)
                    views = await self._read_all(awaited.read, awaited.keys, limit_s=limit_s)
                    clock.answered()
                except SubagentLifecycleError as error:
                    pause_s = clock.outage_pause(error)
                else:
                    if awaited.is_enough(views):
                        return views
                if wake is None:
                    # Asks the server, so only who has to wait does; the next look shows what ended before.
                    watching = self.watching(awaited.watched, confirm_s=clock.pause(usual_s))
                    wake = await stack.enter_async_context(watching)
                    continue
                slot.lend()
                await wake.wait(pause_s)

    async def _lacking(self, views: Views, clock: WaitClock) -> frozenset[str]:
        if not clock.is_over:
            return frozenset()
        try:
            lacking = await self.lacking_worker(list(views.values()))
        except SubagentLifecycleError:
            return frozenset()
        return frozenset(run_id for run_id, lacks in zip(views, lacking, strict=True) if lacks)

    def _is_heard(self, run_keys: Sequence[RunKey]) -> bool:
        return self.connections().subscriptions.hears(places_of(run_keys))

    async def _plan(self, connections: AsyncConnections, batch: LaunchBatch) -> None:
        planner = await self._planner_of(connections)
        try:
            batch.plan(planner, await connections.catalogue.snapshot())
        except SubagentLifecycleError as error:
            if not batch.may_be_new(error):
                raise
        else:
            return
        batch.plan(planner, await connections.catalogue.snapshot(fresh=True))

    async def _planner_of(self, connections: AsyncConnections) -> LaunchPlanner:
        if self._planner is None or self._planner[0] is not connections:
            # The waker's import comes first and off the loop: it takes planning's with it.
            waker = await connections.waker()
            from retinue.client.launching.planning import LaunchPlanner

            template = waker.template if self.settings.same_server else None
            self._planner = connections, LaunchPlanner(self.settings, template)
        return self._planner[1]
