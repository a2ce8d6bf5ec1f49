"""The stage of the reaper's tests, over both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.broker.watch import Watch

from retinue.testing.servers import PrivateServer


@pytest.fixture
async def watch(fresh_store_url: str, store_server: PrivateServer) -> AsyncIterator[Watch]:
    """An empty store that is the broker as well."""
    server = store_server.client(decode_responses=True)
    watch = Watch(fresh_store_url, server)
    yield watch
    await watch.close()
    server.close()
