"""The lifecycle facade for coroutines: the asynchronous twin of lifecycle.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self, cast

from retinue.client.clock import WaitClock
from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.facade.async_budgeting import AsyncBudgeting
from retinue.client.facade.async_controlling import AsyncControlling
from retinue.client.facade.async_dead_letters import AsyncDeadLetters
from retinue.client.facade.async_deciding import AsyncDeciding
from retinue.client.facade.async_purging import AsyncPurging
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
    from retinue.store.connections.async_subscription import AsyncWake


class AsyncSubagentLifecycle(AsyncControlling, AsyncDeciding, AsyncDeadLetters, AsyncBudgeting, AsyncPurging):
    """Mirrors `SubagentLifecycle`, and never blocks its event loop. It may be shared between loops.

    Args:
        session_id, tenant, settings, url, api_key: As for `SubagentLifecycle`.
    """

    if not TYPE_CHECKING:  # type checkers, and derived classes, have their own __init__ in mind

        def __new__(cls, *_args: object, url: object = None, **_keywords: object) -> Self:
            if url is None or cls is not AsyncSubagentLifecycle:
                return super().__new__(cls)
            from retinue.client.over_http.async_facade import AsyncHttpLifecycle

            return super().__new__(AsyncHttpLifecycle)

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
        self._calls = AsyncDispatch(Scope.checked(tenant, session_id), settings)

    @classmethod
    def operator(
        cls,
        tenant: str = "_",
        *,
        settings: Settings | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> Self:
        """Mirrors `SubagentLifecycle.operator`."""
        if url is not None and cls is AsyncSubagentLifecycle:
            from retinue.client.over_http.async_facade import AsyncHttpLifecycle

            of_api = AsyncHttpLifecycle.operator(tenant, settings=settings, url=url, api_key=api_key)
            return cast("Self", of_api)
        made = cls(tenant=tenant, settings=settings, url=url, api_key=api_key)
        made._calls = AsyncDispatch(Scope.checked(tenant, None, is_operator=True), settings)
        return made

    @classmethod
    def of_parent(cls, parent: ParentRun, *, settings: Settings | None = None) -> Self:
        """Mirrors `SubagentLifecycle.of_parent`."""
        made = cls(settings=settings)
        made._calls = AsyncDispatch(Scope.of_parent(parent), settings)
        return made

    async def launch(self, request: object = None, /, **keywords: object) -> SubagentHandle:
        """Mirrors `SubagentLifecycle.launch`."""
        handles = await self._calls.launch([launch_request(request, **keywords)])
        return handles[0]

    async def launch_many(self, requests: Iterable[object]) -> tuple[SubagentHandle, ...]:
        """Mirrors `SubagentLifecycle.launch_many`."""
        return await self._calls.launch(parsed_requests(requests))

    async def continue_run(
        self,
        handle: object,
        text: str,
        *,
        correlation_id: str | None = None,
        timeout_seconds: float | None = None,
        metadata: Mapping[str, object] | None = None,
        inputs: Mapping[str, object] | None = None,
    ) -> SubagentHandle:
        """Mirrors `SubagentLifecycle.continue_run`."""
        calls = self._calls
        target = checked_target(calls.scope, await calls.target(handle))
        store = calls.connections().store
        changes = {
            "correlation_id": correlation_id,
            "timeout_seconds": timeout_seconds,
            "metadata": metadata,
            "inputs": inputs,
        }
        turn = NextTurn.of(target, await store.run(reading.read_request(target.key)), text, changes)
        kept = await store.run(reading.read_conversation(target.key, turn.thread_id))
        handles = await calls.launch([turn.request], thread=turn.thread(kept))
        return handles[0]

    async def run(
        self, request: object = None, /, *, wait_seconds: float | None = None, **keywords: object
    ) -> SubagentResult:
        """Mirrors `SubagentLifecycle.run`."""
        clock = WaitClock(wait_seconds, field="wait_seconds")
        handle = await self.launch(request, **keywords)
        await self._calls.wait_for([handle], clock)
        return await self.result(handle)

    async def handle(self, run_id: object) -> SubagentHandle | None:
        """Mirrors `SubagentLifecycle.handle`."""
        return await self._calls.handle(run_id)

    async def status(self, handle: object) -> SubagentStatus:
        """Mirrors `SubagentLifecycle.status`."""
        target = await self._calls.target(handle)
        if target is None:
            return SubagentStatus.unknown(handle)
        view = await self._calls.view(target.key)
        [lacks] = await self._calls.lacking_worker([view])
        return answers.status_of(target.handle, view, lacks_worker=lacks)

    async def wait(
        self,
        handle: object,
        timeout_seconds: float | None = None,
        *,
        until: WaitUntil | str = WaitUntil.END,
    ) -> SubagentTerminalState:
        """Mirrors `SubagentLifecycle.wait`; where the store is silent it is as late as that."""
        ends = await self._calls.wait_for([handle], WaitClock(timeout_seconds), checked_until(until))
        return ends[0]

    async def wait_any(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        """Mirrors `SubagentLifecycle.wait_any`."""
        return await self._calls.wait_for(list(handles), WaitClock(timeout_seconds))

    async def wait_all(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        """Mirrors `SubagentLifecycle.wait_all`."""
        return await self._calls.wait_for_all(list(handles), WaitClock(timeout_seconds))

    async def result(self, handle: object) -> SubagentResult:
        """Mirrors `SubagentLifecycle.result`."""
        target = await self._calls.target(handle)
        if target is None:
            return SubagentResult.unknown(handle)
        return answers.result_of(target.handle, await self._calls.outcome(target.key))

    async def results(self, handles: Iterable[object]) -> tuple[SubagentResult, ...]:
        """Mirrors `SubagentLifecycle.results`."""
        targets = [(handle, await self._calls.target(handle)) for handle in handles]
        return answers.results_of(targets, await self._calls.outcomes([target for _, target in targets]))

    async def full_text(self, handle: object) -> str | None:
        """Mirrors `SubagentLifecycle.full_text`."""
        target = await self._calls.target(handle)
        found = await self._calls.found(target)
        return answers.text_of(found) if found else None

    async def reconnect(self, handle: object) -> SubagentReconnectResult:
        """Mirrors `SubagentLifecycle.reconnect`."""
        target = await self._calls.target(handle)
        return answers.reconnect_of(await self._calls.state(target.key) if target else None)

    async def list(
        self, *, session_id: str | None = None, offset: int = 0, limit: int = 100
    ) -> tuple[SubagentStatus, ...]:
        """Mirrors `SubagentLifecycle.list`."""
        scope, connections = self._calls.scope, self._calls.connections()
        session, window = scope.listed_session(session_id), checked_page(offset, limit)
        cursor = PageCursor(scope.tenant, session, *window)
        page: list[SubagentStatus] = []
        while (part := cursor.next_read()) is not None:
            for chunk in chunks(cursor.take(await connections.store.run(part))):
                runs = await connections.store.run_all([reading.read_result(key) for key in chunk])
                lacking = await self._calls.lacking_worker([run and run.view for run in runs])
                ring = await connections.keyring.ring()
                page += answers.page_of(ring, scope.tenant, chunk, runs, lacking)
        return tuple(page)

    def events(self, handle: object, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """Mirrors `SubagentLifecycle.events`."""
        place = checked_place(after)
        self._calls.connections()
        return self._events(handle, place, follow=follow)

    async def tree(self, handle: object) -> tuple[SubagentNode, ...]:
        """Mirrors `SubagentLifecycle.tree`."""
        found = await self._calls.owned_run(handle)
        if found is None:
            return ()
        key = found[0]
        fold = TreeFold([event async for event in self.events(key.run_id)])
        run_ids = fold.run_ids(key.run_id)
        views = await self._calls.views([RunKey(key.tenant, run_id) for run_id in run_ids])
        return fold.nodes(run_ids, views)

    async def close(self) -> None:
        """Mirrors `SubagentLifecycle.close`."""
        await self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _events(self, handle: object, after: int, *, follow: bool) -> AsyncIterator[Event]:
        calls = self._calls
        found = await calls.owned_run(handle)
        if found is None:
            return
        key, view = found
        cursor = EventCursor(key.tenant, view.record.root_id, after)
        async with AsyncExitStack() as stack:
            wake: AsyncWake | None = None
            while True:
                # Asked first: what the run did before its end then stands in what is read.
                ended = not follow or is_over(await calls.view(key))
                while batch := cursor.take(await calls.connections().store.run(cursor.next_read())):
                    for event in batch:
                        yield event
                if ended:
                    return
                wake = wake or await stack.enter_async_context(calls.watching([key]))
                with calls.lent():
                    await wake.wait(FOLLOW_EVERY_S)
