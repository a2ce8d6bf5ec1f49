"""One attempt at a delivery, within one limit of time; of the answer only the head is read."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping
from typing import Final

import httpx2

from retinue.broker.outbound.guarded_http import GuardedTransport
from retinue.broker.outbound.target_guard import TargetGuard, TargetRefusedError
from retinue.http.webhooks.schedule import Attempt

_log = logging.getLogger("retinue.http.webhooks")
_HEADERS: Final = {"content-type": "application/json", "user-agent": "retinue", "accept": "*/*"}


class Sender:
    """Posts deliveries.

    Args:
        guard: Looks at each address; nothing else is connected to.
        timeout_s: Of one attempt, from looking up the host to the head of the answer.
    """

    def __init__(self, guard: TargetGuard, *, timeout_s: float) -> None:
        self._guard = guard
        self._timeout_s = timeout_s

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt:
        """Posts once; whatever goes wrong stands in the answer."""
        started = time.monotonic()
        response, error = None, None
        try:
            response = await self._post(url, headers, body)
        except (TimeoutError, httpx2.TimeoutException):
            error = "timeout"
        except TargetRefusedError:
            error = "target_refused"
        except httpx2.ConnectError as fault:
            error = "tls" if _is_of_tls(fault) else "connect"
        except (httpx2.TransportError, httpx2.InvalidURL):
            error = "protocol"
        except Exception as fault:
            _log.error("webhook.send_failed error=%s", type(fault).__name__, exc_info=fault)
            error = "internal"
        duration_ms = round((time.monotonic() - started) * 1000)
        if response is None:
            return Attempt(duration_ms, error=error)
        return Attempt(duration_ms, response.status_code, None, response.headers.get("retry-after"))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> httpx2.Response:
        timeout = httpx2.Timeout(self._timeout_s).as_dict()
        request = httpx2.Request(
            "POST", url, headers={**_HEADERS, **headers}, content=body, extensions={"timeout": timeout}
        )
        # A connection for each: what one receiver does to it concerns no other delivery. And no client, which
        # would write the URL to the log.
        transport = GuardedTransport(self._guard)
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await transport.handle_async_request(request)
                await response.aclose()
                return response
        finally:
            await transport.aclose()


def _is_of_tls(fault: BaseException | None) -> bool:
    while fault is not None:
        if isinstance(fault, ssl.SSLError):
            return True
        fault = fault.__cause__ or fault.__context__
    return False
