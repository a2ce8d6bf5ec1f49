"""Thin SDK clients over shared connections: one for each URL, key and headers."""

import socket
import ssl
from collections import OrderedDict
from functools import partial
from typing import TypeVar

import aiohttp
import httpx2
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from retinue.broker.outbound.lasting_http import socket_options
from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError, Provider
from retinue.worker.models.dialect import is_openai

_CLIENTS_KEPT = 256
_DUMMY_KEY = "none"

K = TypeVar("K")
V = TypeVar("V")


class ClientPool:
    """The connections of one loop, and the thin SDK clients over them.

    Args:
        http: The connections.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self._clients: OrderedDict[tuple[object, ...], AsyncOpenAI] = OrderedDict()

    def client(self, provider: Provider) -> AsyncOpenAI:
        """The client for a provider's bundle.

        Raises:
            ModelError: As `make_client`.
        """
        # By value: overridden providers are made anew for each run. Dropping a client closes nothing.
        key = (provider.base_url, _key_of(provider), *sorted(_headers_of(provider).items()))
        client = self._clients.get(key)
        if client is None:
            client = make_client(provider, self.http)
        keep(self._clients, key, client, _CLIENTS_KEPT)
        return client


def pooled_http(*, limits: httpx2.Limits, timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    """The SDK's client over aiohttp, on whose sockets the kernel looks after the other end.

    Args:
        limits: Of its connections.
        timeout: Of each request.
    """
    # A redirect would carry the provider's headers, credentials among them, to another host.
    http = DefaultAioHttpClient(limits=limits, timeout=timeout, follow_redirects=False)
    # The SDK neither passes socket options on to aiohttp nor exports its transport; each proxy has one.
    for transport in (http._transport, *http._mounts.values()):  # pyright: ignore[reportPrivateUsage]
        if transport is not None:
            trust: ssl.SSLContext = transport.ssl_context  # pyright: ignore
            transport.client = partial(_session, trust, limits)  # pyright: ignore
    return http


def _session(trust: ssl.SSLContext, limits: httpx2.Limits) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        ssl=trust,
        limit=limits.max_connections or 0,
        keepalive_timeout=limits.keepalive_expiry,
        socket_factory=_open_socket,
    )
    return aiohttp.ClientSession(connector=connector)


def _open_socket(address: aiohttp.AddrInfoType) -> socket.socket:  # pyright: ignore[reportUnknownParameterType]
    opened = socket.socket(*address[:3])
    for option in socket_options():
        opened.setsockopt(*option)
    return opened


def make_client(provider: Provider, http: httpx2.AsyncClient) -> AsyncOpenAI:
    """A client for a provider's bundle over the given connections.

    Raises:
        ModelError: OpenAI's own API is asked without a key.
    """
    headers, api_key = _headers_of(provider), _key_of(provider)
    if not api_key and is_openai(provider) and not headers:
        raise ModelError(
            f"provider {provider.name!r} has no API key; set its api_key or api_key_env",
            classification=ErrorClassification.MODEL_REJECTED,
        )
    make = AsyncOpenAI if is_openai(provider) else _ForeignClient
    return make(
        api_key=api_key or _DUMMY_KEY,
        base_url=provider.base_url,
        default_headers=headers,
        max_retries=0,
        http_client=http,
    )


def _key_of(provider: Provider) -> str:
    return provider.api_key.get_secret_value() if provider.api_key else ""


def _headers_of(provider: Provider) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in provider.headers.items()}


class _ForeignClient(AsyncOpenAI):
    """For servers that are not OpenAI's: sends nothing that the SDK reads from OPENAI_* variables.

    Those hold organisation, project and custom headers, meant for OpenAI alone.
    """

    def __init__(self, *, default_headers: dict[str, str], **options: object) -> None:
        self._own_headers = default_headers
        super().__init__(default_headers=default_headers, **options)  # pyright: ignore[reportArgumentType]

    @property
    def default_headers(self) -> dict[str, str | openai.Omit]:
        return {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "User-Agent": self.user_agent,
            **self._own_headers,
        }


def keep(kept: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    """Put the value in as the newest, and drop the oldest beyond the limit."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > limit:
        kept.popitem(last=False)
