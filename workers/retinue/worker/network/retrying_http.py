"""A transport that sends requests again as a document's RetryPolicy says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import httpx2

from retinue.agents.agentspec.remote_spec import RetrySpec
from retinue.worker.models.errors import retry_after_s
from retinue.worker.network.spec_retry import recoverable, wait_s

_BODY_MAX_BYTES = 65_536


class RetryingTransport(httpx2.AsyncBaseTransport):
    """Sends a request until it is answered well or the policy has no more attempts.

    Args:
        inner: What sends it.
        retry: The policy.
        sleep: Waits for the given seconds.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        retry: RetrySpec,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._inner = inner
        self._retry = retry
        self._sleep = sleep

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request, again where that may help."""
        attempt = 1
        while True:
            last = attempt > self._retry.max_retries
            try:
                response = await self._inner.handle_async_request(request)
            except httpx2.TransportError:
                if last:
                    raise
                wait = wait_s(self._retry, attempt, None, random.uniform)
            else:
                status = response.status_code
                if last or status < 400 or not recoverable(self._retry, status, await _said(response)):
                    return response
                own = wait_s(self._retry, attempt, status, random.uniform)
                wait = max(own, retry_after_s(response.headers) or 0.0)
                await response.aclose()
            await self._sleep(wait)
            attempt += 1

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


async def _said(response: httpx2.Response) -> str:
    """The text of an error, which stays readable."""
    await response.aread()
    return response.text[:_BODY_MAX_BYTES]
