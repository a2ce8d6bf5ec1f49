"""Which URLs webhooks may be posted to: looked at when one is named, and each time that one is posted to."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2

from retinue.broker.outbound.target_guard import Resolver, TargetGuard, TargetRefusedError
from retinue.broker.settings.http import HttpSettings
from retinue.contract import ErrorCode
from retinue.http.problems import Problem

SETTING: Final = "[http] webhook_private_hosts"
_THREADS: Final = 16
_LOOK_UP_S: Final = 5.0
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class _Rules:
    allow_private_targets: bool
    private_hosts: tuple[str, ...]


class Targets:
    """The hosts that webhooks may reach.

    Args:
        settings: What is allowed.
        resolve: Finds a host's addresses. None = as the system does.
    """

    def __init__(self, settings: HttpSettings, resolve: Resolver | None = None) -> None:
        self._allow_http = settings.webhook_allow_http
        # Threads of their own: a name that is slow to look up must keep nothing else of the process waiting.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook-dns")
        rules = _Rules(settings.webhook_allow_private_targets, settings.webhook_private_hosts)
        self.guard = TargetGuard(rules, shared(resolve or self._look_up), setting=SETTING)

    async def check(self, url: str, *, field: str, must_resolve: bool) -> None:
        """Refuses a URL that nothing may be posted to, as far as that can be told now.

        Args:
            url: One that `web_url` lets pass.
            field: Where it stands in the request.
            must_resolve: Whether its host must have an address now.

        Raises:
            Problem: INVALID_REQUEST; names field, limit and mend.
        """
        if not self._allow_http and not url.startswith("https://"):
            mend = "use https; the operator can allow http with http.webhook_allow_http"
            raise _refused(field, "would be told in clear text", "an https:// URL", mend)
        try:
            host, port = _place(url)
            async with asyncio.timeout(_LOOK_UP_S):
                await self.guard.addresses(host, port)
        except TargetRefusedError as refusal:
            raise _refused(field, str(refusal), "a host with public addresses alone", None) from None
        except (OSError, TimeoutError):
            if must_resolve:
                mend = "check its spelling, or try again once its name server answers"
                raise _refused(
                    field, "names a host without an address", "a host that resolves", mend
                ) from None
        except httpx2.InvalidURL:
            raise _refused(field, "is no URL", "an https:// URL", "correct it") from None

    def close(self) -> None:
        """Lets go of the threads; one that still waits for an answer ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str, port: int) -> list[str]:
        def find() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys(str(each[4][0]) for each in found))

        return await asyncio.get_running_loop().run_in_executor(self._threads, find)


def place_of(url: str) -> str:
    """32 hex characters that stand for a URL's scheme, host and port."""
    parts = urlsplit(url)
    return hashlib.sha256(f"{parts.scheme}://{parts.netloc.lower()}".encode()).hexdigest()[:32]


def shared(resolve: Resolver) -> Resolver:
    """A resolver that is asked once for all who wait for the same answer; it remembers none."""
    asked: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def ask(host: str, port: int) -> list[str]:
        key = host, port

        def forget(found: asyncio.Future[list[str]]) -> None:
            del asked[key]
            # All who asked may have given up waiting: then nobody else looks at what went wrong.
            if not found.cancelled():
                found.exception()

        answer = asked.get(key)
        if answer is None:
            answer = asked[key] = asyncio.ensure_future(resolve(host, port))
            answer.add_done_callback(forget)
        # One that gives up waiting must not cancel it for the others.
        return await asyncio.shield(answer)

    return ask


def _place(url: str) -> tuple[str, int]:
    read = httpx2.URL(url)  # as whoever connects reads it
    return read.raw_host.decode("ascii"), read.port or _PORTS[read.scheme]


def _refused(field: str, detail: str, limit: str, mend: str | None) -> Problem:
    return Problem(ErrorCode.INVALID_REQUEST, 422, detail, field=field, limit=limit, mend=mend)
