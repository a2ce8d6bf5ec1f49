"""The lifecycle facade for plain code: views, tasks, scripts, and tools in their OS thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, cast

from retinue.client.clock import WaitClock
from retinue.client.dispatch.sync_dispatch import SyncDispatch
from retinue.client.facade.budgeting import Budgeting
from retinue.client.facade.controlling import Controlling
from retinue.client.facade.dead_letters import DeadLetters
from retinue.client.facade.deciding import Deciding
from retinue.client.facade.purging import Purging
from retinue.client.launching.requests import launch_request, parsed_requests
from retinue.client.parent import ParentRun
from retinue.client.reading import answers
from retinue.client.reading.reads import (
    FOLLOW_EVERY_S,
    EventCursor,
    PageCursor,
    checked_page,
    checked_place,
    chunks,
    is_over,
)
from retinue.client.reading.tree import SubagentNode, TreeFold
from retinue.client.scope import Scope, refuse_http
from retinue.client.steps.continuing import NextTurn, checked_target
from retinue.client.steps.decisions import checked_until
from retinue.contract import (
    Event,
    SubagentHandle,
    SubagentReconnectResult,
    SubagentResult,
    SubagentStatus,
    SubagentTerminalState,
    WaitUntil,
)
from retinue.store.call import RunKey
from retinue.store.operations import reading

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.store.connections.subscription import Wake


class SubagentLifecycle(Controlling, Deciding, DeadLetters, Budgeting, Purging):
    """Launches subagents, watches, steers and stops them; safe to share between OS threads.

    A handle that is malformed, forged, of another session or expired never raises: it gets the UNKNOWN
    answers. A launch fails closed. Connections are made at the first call, and shared within a process.

    Args:
        session_id: The session that owns what is launched. None = the running parent's, inside a tool.
        tenant: The session's tenant.
        settings: None = the process's own, read at the first call.
        url: Root of the HTTP API, for a process without a way to the store. The tenant is then the key's, and
            no settings are read. None = go to the store itself.
        api_key: For the API. None = the variable RETINUE_API_KEY; without a key, handles open their runs.

    Raises:
        SubagentLifecycleError: session_id, tenant, url or api_key break their rules. Every call:
            STORE_UNAVAILABLE within about 3 s where the store, or the API, does not answer; WRONG_LOOP on the
            thread of a running event loop.
    """

    if not TYPE_CHECKING:  # type checkers, and derived classes, have their own __init__ in mind

        def __new__(cls, *_args: object, url: object = None, **_keywords: object) -> Self:
            if url is None or cls is not SubagentLifecycle:
                return super().__new__(cls)
            from retinue.client.over_http.facade import HttpLifecycle

            return super().__new__(HttpLifecycle)

    def __init__(
        self,
        session_id: str | None = None,
        *,
        tenant: str = "_",
        settings: Settings | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        refuse_http(url, api_key)
        self._calls = SyncDispatch(Scope.checked(tenant, session_id), settings)

    @classmethod
    def operator(
        cls,
        tenant: str = "_",
        *,
        settings: Settings | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> Self:
        """A facade that may act on every session of the tenant; it launches nothing.

        Args:
            tenant, settings, url, api_key: As for the class.
        """
        if url is not None and cls is SubagentLifecycle:
            from retinue.client.over_http.facade import HttpLifecycle

            return cast("Self", HttpLifecycle.operator(tenant, settings=settings, url=url, api_key=api_key))
        made = cls(tenant=tenant, settings=settings, url=url, api_key=api_key)
        made._calls = SyncDispatch(Scope.checked(tenant, None, is_operator=True), settings)
        return made

    @classmethod
    def of_parent(cls, parent: ParentRun, *, settings: Settings | None = None) -> Self:
        """A facade whose launches are children of a running tool call's run."""
        made = cls(settings=settings)
        made._calls = SyncDispatch(Scope.of_parent(parent), settings)
        return made

    def launch(self, request: object = None, /, **keywords: object) -> SubagentHandle:
        """Starts one run; once this returned, it ends in exactly one terminal state.

        Args:
            request: A SubagentLaunchRequest, or a mapping of its fields.
            keywords: Its fields, in place of a request. `agent` is a name, or an Agent Spec document: its
                mapping, JSON or YAML text or path, or a pyagentspec object.

        Returns:
            The handle, good in every process and after every restart.

        Raises:
            SubagentLifecycleError: Names field, limit and mend; nothing was launched. LAUNCH_UNKNOWN: it may
                have been, and the error's handle tells once the store answers; over HTTP it may have none.
        """
        return self._calls.launch([launch_request(request, **keywords)])[0]

    def launch_many(self, requests: Iterable[object]) -> tuple[SubagentHandle, ...]:
        """Starts 1 to 100 runs, all or none.

        Args:
            requests: Each as `launch` takes it.

        Returns:
            Their handles, in order.

        Raises:
            SubagentLifecycleError: As for `launch`; of several requests it names the one at fault, as in
                requests[1].agent.
        """
        return self._calls.launch(parsed_requests(requests))

    def continue_run(
        self,
        handle: object,
        text: str,
        *,
        correlation_id: str | None = None,
        timeout_seconds: float | None = None,
        metadata: Mapping[str, object] | None = None,
        inputs: Mapping[str, object] | None = None,
    ) -> SubagentHandle:
        """The next turn of a conversation: a new run of the same request, by the conversation's owner.

        Args:
            handle: Of the conversation's last run, or of any earlier one.
            text: What the user says now.
            correlation_id: As in a launch; the first run's is not taken over.
            timeout_seconds, metadata, inputs: In place of the first run's. None = as they were.

        Returns:
            The new run's handle.

        Raises:
            SubagentLifecycleError: RUN_ACTIVE: a run of the conversation has not ended. UNKNOWN_HANDLE: there
                is no such conversation for this session, or no longer. Else as `launch`.
        """
        calls = self._calls
        target = checked_target(calls.scope, calls.target(handle))
        store = calls.connections().store
        changes = {
            "correlation_id": correlation_id,
            "timeout_seconds": timeout_seconds,
            "metadata": metadata,
            "inputs": inputs,
        }
        turn = NextTurn.of(target, store.run(reading.read_request(target.key)), text, changes)
        kept = store.run(reading.read_conversation(target.key, turn.thread_id))
        return calls.launch([turn.request], thread=turn.thread(kept))[0]

    def run(
        self, request: object = None, /, *, wait_seconds: float | None = None, **keywords: object
    ) -> SubagentResult:
        """Launches, waits and gives the result.

        Args:
            request, keywords: As for `launch`.
            wait_seconds: Longest wait; after it the run goes on, and the result is not ready.
                None = for ever.
        """
        clock = WaitClock(wait_seconds, field="wait_seconds")
        handle = self.launch(request, **keywords)
        self._calls.wait_for([handle], clock)
        return self.result(handle)

    def handle(self, run_id: object) -> SubagentHandle | None:
        """The handle of a run of which only the id is at hand.

        Returns:
            None: no run of this session (for an operator: of this tenant) has that id, or not any longer.
        """
        return self._calls.handle(run_id)

    def status(self, handle: object) -> SubagentStatus:
        """How the run stands now."""
        target = self._calls.target(handle)
        if target is None:
            return SubagentStatus.unknown(handle)
        view = self._calls.view(target.key)
        [lacks] = self._calls.lacking_worker([view])
        return answers.status_of(target.handle, view, lacks_worker=lacks)

    def wait(
        self,
        handle: object,
        timeout_seconds: float | None = None,
        *,
        until: WaitUntil | str = WaitUntil.END,
    ) -> SubagentTerminalState:
        """Waits for the run's end; inside a tool, the worker's slot is lent meanwhile.

        Args:
            timeout_seconds: 0 = look once. None = for ever.
            until: "asked" = return also once the run, or one below it, asks something of a human, or is
                paused for its budget is spent: then neither completed nor timed_out.

        Returns:
            How the run stands; where the time was over first, its diagnostic says if no worker runs it.

        Raises:
            SubagentLifecycleError: timeout_seconds is negative or NaN, or until another word.
                STORE_UNAVAILABLE: the store was silent for 30 s, or when the time was over: then at most 1 s
                after timeout_seconds, or within store_timeout_seconds (3 s) where that is longer.
        """
        return self._calls.wait_for([handle], WaitClock(timeout_seconds), checked_until(until))[0]

    def wait_any(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        """Waits until one of the runs has ended; an unknown handle counts as ended.

        Returns:
            For each handle, in order, how its run stands then; `completed` marks those that have ended.
        """
        return self._calls.wait_for(list(handles), WaitClock(timeout_seconds))

    def wait_all(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        """Waits until all of the runs have ended.

        Args:
            timeout_seconds: For all of them together.

        Returns:
            One for each handle, in order.
        """
        return self._calls.wait_for_all(list(handles), WaitClock(timeout_seconds))

    def result(self, handle: object) -> SubagentResult:
        """What the run came to, the same each time; NOT_READY while it goes on."""
        target = self._calls.target(handle)
        if target is None:
            return SubagentResult.unknown(handle)
        return answers.result_of(target.handle, self._calls.outcome(target.key))

    def results(self, handles: Iterable[object]) -> tuple[SubagentResult, ...]:
        """As `result` for several runs, in few round trips.

        Returns:
            One for each handle, in order.
        """
        targets = [(handle, self._calls.target(handle)) for handle in handles]
        return answers.results_of(targets, self._calls.outcomes([target for _, target in targets]))

    def full_text(self, handle: object) -> str | None:
        """The whole of the last text, where the result's summary is cut; None while the run goes on."""
        target = self._calls.target(handle)
        found = self._calls.found(target)
        return answers.text_of(found) if found else None

    def reconnect(self, handle: object) -> SubagentReconnectResult:
        """Whether the handle still leads to a run, after whatever restart; it never starts one."""
        target = self._calls.target(handle)
        return answers.reconnect_of(self._calls.state(target.key) if target else None)

    def list(
        self, *, session_id: str | None = None, offset: int = 0, limit: int = 100
    ) -> tuple[SubagentStatus, ...]:
        """The session's root runs, newest first.

        Args:
            session_id: An operator's choice; others may leave it out.
            offset: How many of the newest to pass over.
            limit: Longest page. Runs that have expired do not count.
        """
        scope, connections = self._calls.scope, self._calls.connections()
        session, window = scope.listed_session(session_id), checked_page(offset, limit)
        cursor = PageCursor(scope.tenant, session, *window)
        page: list[SubagentStatus] = []
        while (part := cursor.next_read()) is not None:
            for chunk in chunks(cursor.take(connections.store.run(part))):
                runs = connections.store.run_all([reading.read_result(key) for key in chunk])
                lacking = self._calls.lacking_worker([run and run.view for run in runs])
                page += answers.page_of(connections.keyring.ring(), scope.tenant, chunk, runs, lacking)
        return tuple(page)

    def events(self, handle: object, *, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """The events of the tree that a run belongs to, in order; none for an unknown handle.

        Args:
            handle: A handle, or a run id of this session.
            after: The sequence number of the last one known; the first event has 1.
            follow: Go on with new ones until the run has ended.
        """
        place = checked_place(after)
        self._calls.connections()
        return self._events(handle, place, follow=follow)

    def tree(self, handle: object) -> tuple[SubagentNode, ...]:
        """The run and all its descendants, parents first; empty for an unknown handle.

        Args:
            handle: A handle, or a run id of this session.
        """
        found = self._calls.owned_run(handle)
        if found is None:
            return ()
        key = found[0]
        fold = TreeFold(self.events(key.run_id))
        run_ids = fold.run_ids(key.run_id)
        views = self._calls.views([RunKey(key.tenant, run_id) for run_id in run_ids])
        return fold.nodes(run_ids, views)

    def close(self) -> None:
        """Ends the connections that this process shares for the store; the next call makes new ones."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _events(self, handle: object, after: int, *, follow: bool) -> Iterator[Event]:
        calls = self._calls
        found = calls.owned_run(handle)
        if found is None:
            return
        key, view = found
        cursor = EventCursor(key.tenant, view.record.root_id, after)
        with ExitStack() as stack:
            wake: Wake | None = None
            while True:
                # Asked first: what the run did before its end then stands in what is read.
                ended = not follow or is_over(calls.view(key))
                while batch := cursor.take(calls.connections().store.run(cursor.next_read())):
                    yield from batch
                if ended:
                    return
                wake = wake or stack.enter_context(calls.watching([key]))
                with calls.lent():
                    wake.wait(FOLLOW_EVERY_S)
