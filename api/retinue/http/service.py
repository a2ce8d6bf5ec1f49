"""What one process of the HTTP API shares among its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request

from retinue.broker.settings import Settings, load_settings
from retinue.client import AsyncSubagentLifecycle
from retinue.client.dispatch.async_connections import async_connections_for
from retinue.http.tokens import TokenReader

if TYPE_CHECKING:
    from retinue.client.dispatch.async_connections import AsyncConnections
    from retinue.http.readiness.part import Readiness
    from retinue.http.streams.access_watch import AccessWatch
    from retinue.http.streams.hub import StreamHub
    from retinue.http.webhooks.targets import Targets

T = TypeVar("T")


class Service:
    """Settings, connections and facades; at `request.app.state.service`, see `service_of`.

    Args:
        settings: None = the process's own, read now.

    Raises:
        SettingsError: A setting is wrong.

    Attributes:
        settings: Of the process.
        hub: What event streams share; there once the application has started.
        tokens: Reads JSON Web Tokens; None = none are taken.
        access_watch: Tells streams when to end for their callers' sake; there likewise.
        webhook_targets: Which hosts webhooks may reach; there once the application has started.
        readiness: The process's verdict; there once the application has started.
        stopping: Set when the process is told to end: streams close, waits are answered as they stand.
    """

    hub: StreamHub
    access_watch: AccessWatch
    webhook_targets: Targets
    readiness: Readiness

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = load_settings() if settings is None else settings
        self.tokens = TokenReader.of(self.settings.http.jwt)
        self.stopping = asyncio.Event()

    def connections(self) -> AsyncConnections:
        """The connections of the running event loop, which all facades share.

        Raises:
            SettingsError: No store is set.
        """
        return async_connections_for(self.settings)

    def lifecycle(self, tenant: str, session_id: str) -> AsyncSubagentLifecycle:
        """A facade that launches for a session.

        Raises:
            SubagentLifecycleError: tenant or session_id break their rules.
        """
        return AsyncSubagentLifecycle(session_id, tenant=tenant, settings=self.settings)

    def operator(self, tenant: str) -> AsyncSubagentLifecycle:
        """A facade that may act on every session of a tenant; it launches nothing."""
        return AsyncSubagentLifecycle.operator(tenant, settings=self.settings)

    async def unless_stopping(self, work: Awaitable[T]) -> T | None:
        """The outcome of `work`, or None as soon as the process is told to end; then it is cancelled.

        For what waits on purpose: a long poll then answers with the state as it is.
        """
        task = asyncio.ensure_future(work)
        told = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, told):
                each.cancel()
            await asyncio.gather(task, told, return_exceptions=True)

    async def close(self) -> None:
        """Ends the connections of the running event loop."""
        await self.connections().close()


def service_of(request: Request) -> Service:
    """The service of a request's application."""
    service: Service = request.app.state.service
    return service
