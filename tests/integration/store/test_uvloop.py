"""The store's asynchronous connection on uvloop, whose transports are none of asyncio's classes."""

from __future__ import annotations

import uvloop

from retinue.store.connections.link import AsyncLink


def test_a_connection_works_on_uvloop(fresh_store_url: str) -> None:
    async def ask() -> list[object]:
        link = AsyncLink(fresh_store_url, client_name="test", connect_timeout_s=45, timeout_s=45, retries=0)
        try:
            return list(await link.pipeline([("PING",), ("SET", "a", "1"), ("GET", "a")]))
        finally:
            await link.close()

    assert uvloop.run(ask()) == [b"PONG", b"OK", b"1"]
