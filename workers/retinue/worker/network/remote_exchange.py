"""One attempt at a RemoteTool's request: sent, redirects followed as far as they may be, the answer read."""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass, field
from typing import Final

import httpx2

from retinue.broker.outbound.guarded_http import GuardedTransport, http_client
from retinue.broker.outbound.target_guard import TargetGuard, TargetRefusedError
from retinue.broker.settings.tools import RemoteToolSettings
from retinue.worker.models.errors import retry_after_s
from retinue.worker.network.remote_request import RemoteRequest, allowed, shown

_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/x-www-form-urlencoded")
_CUT: Final = "\n[cut: the answer was longer than {limit} bytes]"


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's last answer.

    Args:
        status: HTTP status.
        url: Where it came from, without its query.
        text: The body as text, or what it is instead.
        retry_after_s: The wait that the server asks for, in seconds. None = it asks for none.
    """

    status: int
    url: str
    text: str = field(repr=False)
    retry_after_s: float | None = None


async def exchange(
    request: RemoteRequest, guard: TargetGuard, limits: RemoteToolSettings, *, timeout_s: float
) -> Answer:
    """Send the request once.

    Args:
        timeout_s: Limit of it all, in seconds.

    Raises:
        TargetRefusedError: It, or a redirect, leads to a host that is not to be reached.
        TimeoutError: No whole answer arrived in time.
        httpx2.HTTPError: No answer arrived.
    """
    async with (
        asyncio.timeout(timeout_s),
        http_client(GuardedTransport(guard), timeout_s=timeout_s) as client,
    ):
        following = client.build_request(
            request.method, request.url, headers=request.headers, content=request.content
        )
        for _ in range(limits.max_redirects + 1):
            response = await client.send(following, stream=True)
            try:
                if response.next_request is None:
                    text = await _text(response, limits.max_response_bytes)
                    wait = retry_after_s(response.headers)
                    return Answer(response.status_code, shown(response.url), text, wait)
            finally:
                await response.aclose()
            following = _redirected(following, response.next_request, request)
    raise httpx2.TooManyRedirects(f"more than {limits.max_redirects} redirects", request=following)


def _redirected(sent: httpx2.Request, to: httpx2.Request, request: RemoteRequest) -> httpx2.Request:
    """The request that follows a redirect, without the credentials if it leaves their host."""
    if sent.url.scheme == "https" and to.url.scheme != "https":
        raise TargetRefusedError(f"{shown(sent.url)} redirects to plain http, which is not followed")
    if request.allow_list is not None and not allowed(to.url, request.allow_list):
        raise TargetRefusedError(f"{shown(sent.url)} redirects to {shown(to.url)}, which is not allowed")
    if to.url.userinfo:
        raise TargetRefusedError(f"{shown(sent.url)} redirects to a URL that names a user")
    if _origin(sent.url) != _origin(to.url):
        for name in request.secret_headers:
            to.headers.pop(name, None)
    return to


def _origin(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


async def _text(response: httpx2.Response, limit: int) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = bytearray()
    cut = False
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            cut = True
            del body[limit:]
            break
    if kind and not kind.startswith(_TEXT_TYPES) and not kind.endswith(("+json", "+xml")):
        return f"[{len(body)} bytes of {kind[:80]}, which is no text]"
    text = body.decode(_codec(response.charset_encoding), "replace")
    return text + _CUT.format(limit=limit) if cut else text


def _codec(name: str | None) -> str:
    """The codec that the server names, if it is one for text."""
    try:
        found = codecs.lookup(name or "utf-8")
    except (LookupError, ValueError):
        return "utf-8"
    # `zlib` and its like unpack, and would do so without limit.
    return found.name if getattr(found, "_is_text_encoding", True) else "utf-8"
