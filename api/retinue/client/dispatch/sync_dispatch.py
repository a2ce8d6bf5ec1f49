"""How the synchronous facade reaches the store: whose call it is, which connections, in which order.

Its asynchronous twin is async_dispatch.py; what both decide alike stands in batch, scope, clock, answers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeVar

from retinue.client.clock import WaitClock
from retinue.client.dispatch.connections import Connections, connections_for
from retinue.client.dispatch.dispatch import Dispatch, Slot
from retinue.client.launching.batch import LaunchBatch
from retinue.client.launching.ticket import JoinedThread
from retinue.client.reading import answers
from retinue.client.reading.reads import chunks, places_of
from retinue.client.reading.waited import Awaited, LastOfPart, Views, WaitedRuns
from retinue.client.scope import Scope, Target
from retinue.contract import (
    DeadLetter,
    ErrorCode,
    Phase,
    SubagentHandle,
    SubagentLaunchRequest,
    SubagentLifecycleError,
    SubagentTerminalState,
    WaitUntil,
)
from retinue.store.call import RunKey, ScriptCall
from retinue.store.connections.subscription import Wake
from retinue.store.operations import control, reading
from retinue.store.operations.reading import Outcome, RunResult, RunView

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.client.launching.planning import LaunchPlanner

T = TypeVar("T")


class SyncDispatch(Dispatch):
    """The calls of one facade, from plain code."""

    def __init__(self, scope: Scope, settings: Settings | None) -> None:
        super().__init__(scope, settings)
        self._connected: Connections | None = None
        self._planner: tuple[Connections, LaunchPlanner] | None = None

    def connections(self) -> Connections:
        """The process's connections.

        Raises:
            SubagentLifecycleError: WRONG_LOOP: to wait here would stop a running event loop.
            SettingsError: No store is set.
        """
        refuse_running_loop()
        found = self._connected
        if found is None or found.closed or found.pid != os.getpid():
            found = self._connected = connections_for(self.settings)
        return found

    def close(self) -> None:
        """Ends the shared connections, if this facade has used them."""
        found, self._connected, self._planner = self._connected, None, None
        if found is not None and found.pid == os.getpid():
            found.close()

    def target(self, handle: object) -> Target | None:
        """Where a genuine handle leads to; None = it is not genuine, or not in the scope."""
        connections, scope = self.connections(), self.scope
        candidate = scope.candidate(handle)
        if candidate is None or not connections.keyring.verify(scope.tenant, candidate):
            return None
        return scope.target(candidate)

    def owned_run(self, handle: object) -> tuple[RunKey, RunView] | None:
        """A run by its handle or, for runs of the scope, by its bare id; None = there is none."""
        scope = self.scope
        target = None if isinstance(handle, str) else self.target(handle)
        key = target.key if target else scope.run_key(handle)
        view = self.view(key) if key else None
        return (key, view) if key and view and scope.owns(view.record) else None

    def handle(self, run_id: object) -> SubagentHandle | None:
        """The handle of a run of this scope by its bare id; None = there is none (any more)."""
        key = self.scope.run_key(run_id)
        origin = self.connections().store.run(reading.read_origin(key)) if key else None
        if key is None or origin is None or not self.scope.owns(origin.record):
            return None
        ring = self.connections().keyring.ring()
        return answers.handle_of_origin(ring, key.tenant, key.run_id, origin)

    def view(self, key: RunKey) -> RunView | None:
        """A run's record."""
        return self.connections().store.run(reading.read_status(key))

    def state(self, key: RunKey) -> RunView | None:
        """A run's state, phase and agent."""
        return self.connections().store.run(reading.read_state(key))

    def views(self, run_keys: Sequence[RunKey]) -> dict[str, RunView | None]:
        """The records of several runs, by id."""
        return self._read_all(reading.read_status, run_keys)

    def lacking_worker(self, views: Sequence[RunView | None]) -> list[bool]:
        """For each run, whether it is queued and no live worker has its agent."""
        if not any(view is not None and view.record.phase is Phase.QUEUED for view in views):
            return [False] * len(views)
        catalogue = self.connections().catalogue
        lacking = answers.lacking_worker(views, catalogue.snapshot())
        # A worker that has just come may not stand in what was read before.
        return answers.lacking_worker(views, catalogue.snapshot(fresh=True)) if any(lacking) else lacking

    def found(self, target: Target | None) -> RunResult | None:
        """A run with its result, request and steers."""
        return self.connections().store.run(reading.read_result(target.key)) if target else None

    def outcome(self, key: RunKey) -> Outcome:
        """What a run came to."""
        return self.connections().store.run(reading.read_outcome(key))

    def outcomes(self, targets: Sequence[Target | None]) -> dict[str, Outcome]:
        """What several runs came to, by id."""
        return self._read_all(reading.read_outcome, [target.key for target in targets if target])

    def launch(
        self,
        requests: Sequence[SubagentLaunchRequest],
        *,
        thread: JoinedThread | None = None,
        letter: DeadLetter | None = None,
    ) -> tuple[SubagentHandle, ...]:
        """Launches runs, all or none.

        Args:
            thread: The conversation that the only one of them goes on with.
            letter: The dead letter that the only one of them stands in; it is launched in its session.
        """
        connections = self.connections()
        scope = self.scope if letter is None else Scope(self.scope.tenant, letter.session_id)
        batch = LaunchBatch(requests, scope, thread=thread, replays=letter.run_id if letter else None)
        ring, store = connections.keyring.ring(), connections.store
        self._plan(connections, batch)
        while (call := batch.call()) is not None:
            wakeups = () if self.settings.same_server else batch.wakeups()
            reply = store.run(call, unknown=lambda: batch.draft(ring))
            existing = batch.settle(ring, reply)
            if existing is None:
                connections.wake(wakeups)
            else:
                batch.found(ring, existing, store.run(reading.read_result(existing)))
        return batch.handles()

    def sweep(self, key: RunKey) -> None:
        """Ends what no worker holds in a cancelled subtree; what is left over is the reaper's."""
        connections = self.connections()
        cursor: str | None = ""
        try:
            while cursor is not None:
                swept = connections.store.run(control.sweep(key, cursor=cursor))
                connections.wake(swept.wakeups)
                cursor = swept.cursor or None
        except SubagentLifecycleError:
            # The cancel itself was accepted, and its mark stands.
            return

    def wait_for(
        self, handles: Sequence[object], clock: WaitClock, until: WaitUntil = WaitUntil.END
    ) -> tuple[SubagentTerminalState, ...]:
        """Waits until one of the runs has ended, or asks a human, or the time is over."""
        waited = WaitedRuns([(handle, self.target(handle)) for handle in handles], clock, until)
        with self.slot() as slot:
            views = self._awaited(waited, clock, slot)
        return waited.answer(views, lacking=self._lacking(views, clock))

    def wait_for_all(self, handles: Sequence[object], clock: WaitClock) -> tuple[SubagentTerminalState, ...]:
        """Waits until all of the runs have ended, or the time is over."""
        waited = WaitedRuns([(handle, self.target(handle)) for handle in handles], clock)
        views: dict[str, RunView | None] = {}
        with self.slot() as slot:
            for part in waited.parts():
                rest: LastOfPart | None = part
                while rest is not None:
                    views |= self._awaited(rest, clock, slot)
                    rest = rest.rest(views)
        return waited.answer_all(views, lacking=self._lacking(views, clock))

    def watching(
        self, run_keys: Sequence[RunKey], *, confirm_s: float | None = None
    ) -> AbstractContextManager[Wake]:
        """Is woken by the end of any of the runs.

        Args:
            confirm_s: Longest wait for the subscription, in seconds; None = as for any call.
        """
        return self.connections().subscriptions.watch_any(places_of(run_keys), confirm_s=confirm_s)

    def _read_all(
        self,
        read: Callable[[RunKey], ScriptCall[T]],
        run_keys: Sequence[RunKey],
        *,
        limit_s: float | None = None,
    ) -> dict[str, T]:
        """Reads several runs, by id.

        Args:
            limit_s: Longest time for each round trip, in seconds; None = as for any call.
        """
        store, found = self.connections().store, dict[str, T]()
        for chunk in chunks(run_keys):
            replies = store.run_all([read(key) for key in chunk], limit_s=limit_s)
            found.update(zip((key.run_id for key in chunk), replies, strict=True))
        return found

    def _awaited(self, awaited: Awaited, clock: WaitClock, slot: Slot) -> dict[str, RunView | None]:
        if not awaited.keys:
            return {}
        usual_s = self.settings.store_timeout_seconds
        wake: Wake | None = None
        with ExitStack() as stack:
            if self._is_heard(awaited.watched) and not clock.is_over:
                wake = stack.enter_context(self.watching(awaited.watched))
            while True:
                pause_s = clock.pause()
                try:
                    limit_s = clock.read_limit_s(usual_s)
                    views = self._read_all(awaited.read, awaited.keys, limit_s=limit_s)
                    clock.answered()
                except SubagentLifecycleError as error:
                    pause_s = clock.outage_pause(error)
                else:
                    if awaited.is_enough(views):
                        return views
                if wake is None:
                    # Asks the server, so only who has to wait does; the next look shows what ended before.
                    confirm_s = clock.pause(usual_s)
                    wake = stack.enter_context(self.watching(awaited.watched, confirm_s=confirm_s))
                    continue
                slot.lend()
                wake.wait(pause_s)

    def _lacking(self, views: Views, clock: WaitClock) -> frozenset[str]:
        """Those of the runs for which a wait was too short that no live worker can go on with."""
        if not clock.is_over:
            return frozenset()
        try:
            lacking = self.lacking_worker(list(views.values()))
        except SubagentLifecycleError:
            # The store has just gone away; how the runs stand is known.
            return frozenset()
        return frozenset(run_id for run_id, lacks in zip(views, lacking, strict=True) if lacks)

    def _is_heard(self, run_keys: Sequence[RunKey]) -> bool:
        """Whether a watch costs no round trip, and a look before it would only be one more."""
        return self.connections().subscriptions.hears(places_of(run_keys))

    def _plan(self, connections: Connections, batch: LaunchBatch) -> None:
        planner = self._planner_of(connections)
        try:
            batch.plan(planner, connections.catalogue.snapshot())
        except SubagentLifecycleError as error:
            if not batch.may_be_new(error):
                raise
        else:
            return
        batch.plan(planner, connections.catalogue.snapshot(fresh=True))

    def _planner_of(self, connections: Connections) -> LaunchPlanner:
        if self._planner is None or self._planner[0] is not connections:
            from retinue.client.launching.planning import LaunchPlanner

            template = connections.waker.template if self.settings.same_server else None
            self._planner = connections, LaunchPlanner(self.settings, template)
        return self._planner[1]


def refuse_running_loop() -> None:
    """Refuses to block an event loop.

    Raises:
        SubagentLifecycleError: WRONG_LOOP.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SubagentLifecycleError(
        "a call of SubagentLifecycle would block the event loop that runs on this thread",
        mend="await the method of the same name of AsyncSubagentLifecycle",
        code=ErrorCode.WRONG_LOOP,
    )
