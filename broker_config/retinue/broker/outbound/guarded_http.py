"""HTTP for tools and webhooks: connects to addresses that the guard has looked at, and reads only so much."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Final

import httpx2

from retinue.broker.outbound.lasting_http import socket_options
from retinue.broker.outbound.target_guard import TargetGuard

_PORTS: Final = {"http": 80, "https": 443}
_PLAIN_ENCODINGS: Final = ("", "identity")


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """The TLS settings of all requests that bring none of their own; slow to make, so made once."""
    return httpx2.create_ssl_context()


def http_client(
    transport: httpx2.AsyncBaseTransport,
    *,
    timeout_s: float,
    read_timeout_s: float | None = None,
    headers: dict[str, str] | None = None,
) -> httpx2.AsyncClient:
    """A client for one call: it keeps no cookie for another and follows no redirect by itself.

    Args:
        transport: What connects.
        timeout_s: Limit of one connect, write or read, in seconds.
        read_timeout_s: Limit of one read. None = `timeout_s`.
        headers: Sent with each request.
    """
    return httpx2.AsyncClient(
        transport=transport,
        timeout=httpx2.Timeout(timeout_s, read=read_timeout_s or timeout_s),
        # What is unpacked could be a thousand times as long as what was counted.
        headers={"Accept-Encoding": "identity", "User-Agent": "retinue", **(headers or {})},
        follow_redirects=False,
        trust_env=False,  # no proxy, which would resolve names by itself, and no .netrc
    )


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that was checked, while TLS and the Host header keep to the name.

    Args:
        guard: Looks at each address.
        trust: Whom TLS believes. None = as the system.
        max_bytes: Longest answer, as it is sent. None = the caller counts.
    """

    def __init__(
        self, guard: TargetGuard, trust: ssl.SSLContext | None = None, *, max_bytes: int | None = None
    ) -> None:
        self._guard = guard
        self._trust = trust or system_trust()
        self._max_bytes = max_bytes
        # One for each origin: a TLS connection that was made for one name must not serve another.
        self._inner: dict[tuple[str, bytes, int | None], httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request.

        Raises:
            TargetRefusedError: The host is not to be reached.
            httpx2.TransportError: It cannot be reached, or its answer is not fit to be read.
        """
        url = request.url
        if url.scheme not in _PORTS:
            raise httpx2.UnsupportedProtocol("only http and https are spoken", request=request)
        host = url.raw_host.decode("ascii")
        try:
            addresses = await self._guard.addresses(host, url.port or _PORTS[url.scheme])
        except OSError:
            raise httpx2.ConnectError("the host name does not resolve", request=request) from None
        inner = self._inner.setdefault(
            (url.scheme, url.raw_host, url.port),
            httpx2.AsyncHTTPTransport(verify=self._trust, trust_env=False, socket_options=socket_options()),
        )
        for number, address in enumerate(addresses):
            try:
                response = await inner.handle_async_request(_directed(request, address, host))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                # Nothing was sent yet: another of its addresses may answer.
                if number == len(addresses) - 1:
                    raise
                continue
            return response if self._max_bytes is None else await self._bounded(request, response)
        raise httpx2.ConnectError("the host has no address", request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        for inner in self._inner.values():
            await inner.aclose()

    async def _bounded(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        assert self._max_bytes is not None
        if response.headers.get("content-encoding", "") not in _PLAIN_ENCODINGS:
            await response.aclose()
            raise httpx2.DecodingError("the answer is compressed, unasked", request=request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=_BoundedStream(response.stream, self._max_bytes, request),
            extensions=response.extensions,
        )


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int, request: httpx2.Request) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self._max_bytes:
                raise httpx2.ReadError(
                    f"the answer has more than {self._max_bytes} bytes", request=self._request
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _directed(request: httpx2.Request, address: str, host: str) -> httpx2.Request:
    return httpx2.Request(
        method=request.method,
        url=request.url.copy_with(host=address),
        headers=request.headers,  # with the Host that was asked for
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )
