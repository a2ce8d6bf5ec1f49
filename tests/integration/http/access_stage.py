"""The application without a server, over an empty store: keys, clients, runs of two tenants."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from tests.integration.client.store_worker import StoreWorker

from retinue.broker.settings import Settings
from retinue.client import SubagentHandle
from retinue.http.app import create_app
from retinue.http.service import Service
from retinue.store.operations.api_keys import IssuedKey, Scope, create_key

ALL_SCOPES = (Scope.READ, Scope.WRITE, Scope.ADMIN)


class AccessStage:
    """One application, and a worker of store operations that has advertised `support`."""

    def __init__(self, settings: Settings, worker: StoreWorker, stack: AsyncExitStack) -> None:
        self.app = create_app(settings)
        self.service: Service = self.app.state.service
        self.worker = worker
        self._stack = stack

    def issue(self, tenant: str = "_", scopes: Sequence[str] = ALL_SCOPES, **options: Any) -> IssuedKey:
        """A new key."""
        return create_key(self.worker.store, tenant=tenant, scopes=scopes, **options)

    def http(self, key: str = "", **headers: str) -> httpx2.AsyncClient:
        """A client of the application.

        Args:
            key: What it shows as its key; "" = nothing.
            headers: Further ones, with _ for -.
        """
        sent = {"Authorization": f"Bearer {key}"} if key else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        transport = httpx2.ASGITransport(app=self.app)
        client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=sent)
        self._stack.push_async_callback(client.aclose)
        return client

    async def run(self, tenant: str = "_", session: str = "customer-42") -> SubagentHandle:
        """A queued run."""
        return await self.service.lifecycle(tenant, session).launch(agent="support", goal="Help.")


@asynccontextmanager
async def access_stage(url: str, *, parts: bool = False, **settings: Any) -> AsyncGenerator[AccessStage]:
    """A stage over an empty store.

    Args:
        parts: With what works beside the requests, such as streams and webhooks.
    """
    worker = StoreWorker(url)
    async with AsyncExitStack() as stack:
        stack.callback(worker.close)
        worker.advertise("support", model="gpt-5-mini", provider="openai")
        made = AccessStage(Settings.read(store_url=url, **settings), worker, stack)
        if parts:
            await stack.enter_async_context(made.app.router.lifespan_context(made.app))
        else:
            stack.push_async_callback(made.service.close)
        yield made


def shown(fields: object) -> str:
    """A handle, or what is passed off as one, as the header bears it."""
    text = json.dumps(fields.to_dict() if isinstance(fields, SubagentHandle) else fields)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
