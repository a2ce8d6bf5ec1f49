"""The lifecycle facade for plain code, over the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from retinue.client.clock import WaitClock
from retinue.client.launching.requests import launch_request, parsed_requests
from retinue.client.lifecycle import SubagentLifecycle
from retinue.client.over_http import launch_calls, lists, run_calls, waiting
from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.sync_api import SyncApi
from retinue.client.reading.reads import checked_place
from retinue.client.reading.tree import SubagentNode
from retinue.client.scope import Scope
from retinue.client.steps.decisions import checked_until
from retinue.contract import (
    BudgetRaise,
    DeadLetter,
    Event,
    PendingRequest,
    SteerReceipt,
    SubagentCancelResult,
    SubagentDecision,
    SubagentHandle,
    SubagentPurgeResult,
    SubagentReconnectResult,
    SubagentResult,
    SubagentStatus,
    SubagentTerminalState,
    WaitUntil,
)

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


class HttpLifecycle(SubagentLifecycle):
    """`SubagentLifecycle` for a process without a way to the store: what `SubagentLifecycle(url=...)` makes.

    Each method does what the one that it overrides does.

    Args:
        session_id, tenant, settings, url, api_key: As for `SubagentLifecycle`.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        tenant: str = "_",
        settings: Settings | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self._scope = Scope.checked(tenant, session_id)
        self._api = SyncApi(ApiAddress.checked(url, api_key, tenant, settings))

    @classmethod
    def operator(
        cls,
        tenant: str = "_",
        *,
        settings: Settings | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> Self:
        made = cls(tenant=tenant, settings=settings, url=url, api_key=api_key)
        made._scope = Scope.checked(tenant, None, is_operator=True)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._api.address.url!r})"

    def launch(self, request: object = None, /, **keywords: object) -> SubagentHandle:
        return self._api.answer(launch_calls.launch(self._scope, launch_request(request, **keywords)))

    def launch_many(self, requests: Iterable[object]) -> tuple[SubagentHandle, ...]:
        return self._api.answer(launch_calls.launch_many(self._scope, parsed_requests(requests)))

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
        changes = {
            "correlation_id": correlation_id,
            "timeout_seconds": timeout_seconds,
            "metadata": metadata,
            "inputs": inputs,
        }
        return self._api.answer(launch_calls.continue_run(self._scope, handle, text, changes))

    def run(
        self, request: object = None, /, *, wait_seconds: float | None = None, **keywords: object
    ) -> SubagentResult:
        clock = WaitClock(wait_seconds, field="wait_seconds")
        handle = self.launch(request, **keywords)
        self._api.carry_out(waiting.wait(self._scope, handle, clock))
        return self.result(handle)

    def handle(self, run_id: object) -> SubagentHandle | None:
        return self._api.carry_out(lists.handle(self._scope, run_id))

    def status(self, handle: object) -> SubagentStatus:
        return self._api.answer(run_calls.status(self._scope, handle))

    def wait(
        self,
        handle: object,
        timeout_seconds: float | None = None,
        *,
        until: WaitUntil | str = WaitUntil.END,
    ) -> SubagentTerminalState:
        clock = WaitClock(timeout_seconds)
        return self._api.carry_out(waiting.wait(self._scope, handle, clock, checked_until(until)))

    def wait_any(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        runs, clock = self._named(handles), WaitClock(timeout_seconds)
        return self._api.carry_out(waiting.wait_any(runs, clock))

    def wait_all(
        self, handles: Iterable[object], timeout_seconds: float | None = None
    ) -> tuple[SubagentTerminalState, ...]:
        runs, clock = self._named(handles), WaitClock(timeout_seconds)
        return self._api.carry_out(waiting.wait_all(runs, clock))

    def result(self, handle: object) -> SubagentResult:
        return self._api.answer(run_calls.result(self._scope, handle))

    def results(self, handles: Iterable[object]) -> tuple[SubagentResult, ...]:
        return self._api.carry_out(waiting.results(self._named(handles)))

    def full_text(self, handle: object) -> str | None:
        return self._api.answer(run_calls.full_text(self._scope, handle))

    def reconnect(self, handle: object) -> SubagentReconnectResult:
        return self._api.answer(run_calls.reconnect(self._scope, handle))

    def list(
        self, *, session_id: str | None = None, offset: int = 0, limit: int = 100
    ) -> tuple[SubagentStatus, ...]:
        return self._api.carry_out(lists.runs(self._scope, session_id, offset, limit))

    def events(self, handle: object, *, after: int = 0, follow: bool = False) -> Iterator[Event]:
        return self._events(handle, checked_place(after), follow=follow)

    def tree(self, handle: object) -> tuple[SubagentNode, ...]:
        return self._api.carry_out(lists.tree(self._scope, handle))

    def send_steer(self, handle: object, text: str, *, steer_id: str | None = None) -> SteerReceipt:
        return self._api.answer(run_calls.send_steer(self._scope, handle, text, steer_id))

    def steer_status(self, handle: object, steer_id: str) -> SteerReceipt:
        return self._api.answer(run_calls.steer_status(self._scope, handle, steer_id))

    def cancel(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        return self._api.answer(run_calls.cancel(self._scope, handle, reason))

    def interrupt(self, handle: object, reason: str | None = None) -> SubagentCancelResult:
        return self._api.answer(run_calls.interrupt(self._scope, handle, reason))

    def pending(self, handle: object) -> tuple[PendingRequest, ...]:
        return self._api.answer(run_calls.pending(self._scope, handle))

    def approve(self, handle: object, request_id: str) -> SubagentDecision:
        return self._api.answer(run_calls.approve(self._scope, handle, request_id))

    def deny(self, handle: object, request_id: str, reason: str = "") -> SubagentDecision:
        return self._api.answer(run_calls.deny(self._scope, handle, request_id, reason))

    def answer(self, handle: object, request_id: str, value: object) -> SubagentDecision:
        return self._api.answer(run_calls.answer(self._scope, handle, request_id, value))

    def raise_budget(self, handle: object, **caps: object) -> BudgetRaise:
        return self._api.answer(run_calls.raise_budget(self._scope, handle, caps))

    def purge(self, handle: object, *, conversation: bool = True) -> SubagentPurgeResult:
        return self._api.answer(run_calls.purge(self._scope, handle, conversation))

    def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetter, ...]:
        return self._api.carry_out(lists.dead_letters(self._scope, limit))

    def dead_letter(self, run: object) -> DeadLetter | None:
        return self._api.carry_out(lists.dead_letter(self._scope, run))

    def replay(self, run: object) -> SubagentHandle:
        return self._api.carry_out(lists.replay(self._scope, run))

    def discard(self, run: object) -> bool:
        return self._api.carry_out(lists.discard(self._scope, run))

    def close(self) -> None:
        """Ends the connections that this process shares for the API; the next call makes new ones."""
        self._api.close()

    def _events(self, handle: object, after: int, *, follow: bool) -> Iterator[Event]:
        found = self._api.carry_out(lists.located(self._scope, handle))
        if found is not None:
            events = self._api.follow if follow else self._api.events
            yield from events(found, after)

    def _named(self, handles: Iterable[object]) -> waiting.NamedRuns:
        by_key = self._api.address.api_key is not None
        return waiting.NamedRuns(self._scope, [*handles], by_key=by_key)
