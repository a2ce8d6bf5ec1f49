"""The asynchronous twin of sync_dispatch.py."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
)
from typing import TYPE_CHECKING

from retinue.client.async_connections import AsyncConnections, async_connections_for
from retinue.client.batch import LaunchBatch
from retinue.client.clock import WaitClock
from retinue.client.dispatch import Dispatch
from retinue.client.reads import chunks, places_of
from retinue.client.scope import Scope, Target
from retinue.client.waited import WaitedRuns
from retinue.contract import (
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentTerminalState,
)
from retinue.store import control, reading
from retinue.store.async_subscription import AsyncWake
from retinue.store.call import RunKey
from retinue.store.reading import RunResult, RunView

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.client.planning import LaunchPlanner


class AsyncDispatch(Dispatch):
    """Mirrors `SyncDispatch`."""

    def __init__(self, scope: Scope, settings: Settings | None) -> None:
        super().__init__(scope, settings)
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

    async def view(self, key: RunKey) -> RunView | None:
        """Mirrors `SyncDispatch.view`."""
        return await self.connections().store.run(reading.read_status(key))

    async def views(
        self, run_keys: Sequence[RunKey], *, limit_s: float | None = None
    ) -> dict[str, RunView | None]:
        """Mirrors `SyncDispatch.views`."""
        found: dict[str, RunView | None] = {}
        for chunk in chunks(run_keys):
            reads = [reading.read_status(key) for key in chunk]
            views = await self.connections().store.run_all(reads, limit_s=limit_s)
            found |= {key.run_id: view for key, view in zip(chunk, views, strict=True)}
        return found

    async def found(self, target: Target | None) -> RunResult | None:
        """Mirrors `SyncDispatch.found`."""
        return await self.connections().store.run(reading.read_result(target.key)) if target else None

    async def launch(self, requests: Sequence[SubagentLaunchRequest]) -> tuple[SubagentHandle, ...]:
        """Mirrors `SyncDispatch.launch`."""
        connections = self.connections()
        batch = LaunchBatch(requests, self.scope)
        ring, store = await connections.keyring.ring(), connections.store
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
        self, handles: Sequence[object], clock: WaitClock
    ) -> tuple[SubagentTerminalState, ...]:
        """Mirrors `SyncDispatch.wait_for`."""
        targets = [(handle, await self.target(handle)) for handle in handles]
        waited = WaitedRuns(targets, clock)
        return waited.answer(await self._first_end(waited, clock))

    def watching(
        self, run_keys: Sequence[RunKey], *, confirm_s: float | None = None
    ) -> AbstractAsyncContextManager[AsyncWake]:
        """Mirrors `SyncDispatch.watching`."""
        return self.connections().subscriptions.watch_any(places_of(run_keys), confirm_s=confirm_s)

    async def _first_end(self, waited: WaitedRuns, clock: WaitClock) -> dict[str, RunView | None]:
        if not waited.keys:
            return {}
        usual_s = self.settings.store_timeout_seconds
        async with AsyncExitStack() as stack:
            watching = self.watching(waited.keys, confirm_s=clock.pause(usual_s))
            wake = await stack.enter_async_context(watching)
            is_lent = False
            while True:
                pause_s = clock.pause()
                try:
                    views = await self.views(waited.keys, limit_s=clock.read_limit_s(usual_s))
                    clock.answered()
                except SubagentLifecycleError as error:
                    pause_s = clock.outage_pause(error)
                else:
                    if waited.is_enough(views):
                        return views
                if not is_lent:
                    stack.enter_context(self.lent())
                    is_lent = True
                await wake.wait(pause_s)

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
            from retinue.client.planning import LaunchPlanner

            template = waker.template if self.settings.same_server else None
            self._planner = connections, LaunchPlanner(self.settings, template)
        return self._planner[1]
