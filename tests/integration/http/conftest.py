"""What the tests of the HTTP API without workers share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.integration.http.stream_stage import StreamStage, stream_stage


@pytest.fixture
async def stage(fresh_store_url: str) -> AsyncIterator[StreamStage]:
    """Streams over an empty store, once a Valkey and once a Redis; comments come fast."""
    async with stream_stage(fresh_store_url, stream_keep_alive_seconds=0.3) as made:
        yield made
