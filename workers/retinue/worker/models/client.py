"""Requests over the `openai` client: its transport, headers and status errors, none of its models.

The SDK's typed calls walk the whole history and cost 5 to 20 ms of CPU each; `post` with ready bytes costs
about 1.4. aiohttp's pool stays flat under thousands of connections where the SDK's default one does not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError, ModelRequest, ModelResponse, OnDelta, Provider
from retinue.worker.models.chat import ChatExchange
from retinue.worker.models.dialect import Dialect, is_openai
from retinue.worker.models.errors import status_error, transport_error, unusable_answer
from retinue.worker.models.responses import ResponsesExchange
from retinue.worker.models.sse import SseDecoder
from retinue.worker.models.wire import load_object, mend_surrogates

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Where an answer is given up: no model writes this much, a broken server may."""

_DRAIN_S = 0.1
_CLIENTS_KEPT = 256
_DIALECTS_KEPT = 1_024
_DUMMY_KEY = "none"

Exchange = ChatExchange | ResponsesExchange

K = TypeVar("K")
V = TypeVar("V")


class OpenAiModel:
    """Calls any provider that speaks chat completions or responses; one object serves a whole process.

    Connections belong to the event loop they were made on and are shared by its providers; close them with
    `close` on that loop. Cancelling the task that awaits `complete` closes its connection at once.

    Args:
        timeout_s: The longest silence of a server, before and between pieces of an answer.
        connect_timeout_s: For one connection attempt.
        max_connections: At once, per event loop. Calls beyond it wait up to `timeout_s`.
        keepalive_s: How long an idle connection is kept; above usual tool time, so that a run's next call
            finds it open.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 60.0,
        max_connections: int = 10_000,
        keepalive_s: float = 60.0,
    ) -> None:
        self._timeout = httpx2.Timeout(timeout_s, connect=min(connect_timeout_s, timeout_s))
        self._limits = httpx2.Limits(max_connections=max_connections, keepalive_expiry=keepalive_s)
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()
        self._dialects: OrderedDict[tuple[str, str], Dialect] = OrderedDict()

    async def complete(self, request: ModelRequest, *, on_delta: OnDelta | None = None) -> ModelResponse:
        """Send one request and return its whole answer.

        Args:
            request: What to send.
            on_delta: Called with each piece of output text; an answer that is not streamed is one piece.

        Raises:
            ModelError: No usable answer came.
        """
        place = request.provider.base_url, request.model
        dialect = self._dialects.get(place) or Dialect.of(request.provider)
        while True:
            try:
                return await self._try(request, dialect, on_delta)
            except ModelError as error:
                corrected = dialect.after(error)
                if corrected is None:
                    raise
                dialect = corrected
                _keep(self._dialects, place, dialect, _DIALECTS_KEPT)

    async def close(self) -> None:
        """Close the connections of the running loop. A later call opens new ones."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.http.aclose()

    async def _try(self, request: ModelRequest, dialect: Dialect, on_delta: OnDelta | None) -> ModelResponse:
        provider = request.provider
        exchange = ResponsesExchange(request) if provider.api == "responses" else ChatExchange(request)
        content = exchange.body(dialect)
        try:
            response = await self._client(provider).post(
                exchange.path,
                cast_to=httpx2.Response,
                content=content,
                # Always for the SDK: whether the answer is an event stream is told by its content type.
                stream=True,
                stream_cls=AsyncStream[object],
            )
            assert isinstance(response, httpx2.Response)
            try:
                return await _read(exchange, provider, response, on_delta)
            finally:
                await response.aclose()
        except ModelError:
            raise
        except openai.APIStatusError as error:
            raise status_error(provider, error) from None
        except Exception as error:
            # `from None`: the texts along the chain may quote headers and bodies, and chains get logged.
            raise transport_error(provider, error) from None

    def _client(self, provider: Provider) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            # A redirect would carry the provider's headers, credentials among them, to another host.
            http = DefaultAioHttpClient(limits=self._limits, timeout=self._timeout, follow_redirects=False)
            pool = self._pools[loop] = _Pool(http)
        return pool.client(provider)


class _Pool:
    """The connections of one loop, and the thin SDK clients over them."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self._clients: OrderedDict[tuple[object, ...], AsyncOpenAI] = OrderedDict()

    def client(self, provider: Provider) -> AsyncOpenAI:
        headers = {name: value.get_secret_value() for name, value in provider.headers.items()}
        api_key = provider.api_key.get_secret_value() if provider.api_key else ""
        if not api_key and is_openai(provider) and not headers:
            raise ModelError(
                f"provider {provider.name!r} has no API key; set its api_key or api_key_env",
                classification=ErrorClassification.MODEL_REJECTED,
            )
        # By value: overridden providers are made anew for each run. Dropping a client closes nothing.
        key = (provider.base_url, api_key, *sorted(headers.items()))
        client = self._clients.get(key)
        if client is None:
            make = AsyncOpenAI if is_openai(provider) else _ForeignClient
            client = make(
                api_key=api_key or _DUMMY_KEY,
                base_url=provider.base_url,
                default_headers=headers,
                max_retries=0,
                http_client=self.http,
            )
        _keep(self._clients, key, client, _CLIENTS_KEPT)
        return client


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


async def _read(
    exchange: Exchange, provider: Provider, response: httpx2.Response, on_delta: OnDelta | None
) -> ModelResponse:
    async with aclosing(_bounded(provider, response)) as chunks:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            marked_end = await _read_events(exchange, provider, chunks, on_delta)
        else:
            answer = load_object(b"".join([chunk async for chunk in chunks]))
            if answer is None:
                raise unusable_answer(provider, "sent an answer that is not JSON; is its base_url right?")
            _tell(on_delta, exchange.whole(answer))
            marked_end = True
    return exchange.finish(marked_end=marked_end)


async def _read_events(
    exchange: Exchange, provider: Provider, chunks: AsyncGenerator[bytes], on_delta: OnDelta | None
) -> bool:
    """Feed a stream's events to the exchange; returns whether its end was marked."""
    decoder = SseDecoder()
    async for chunk in chunks:
        if _feed(exchange, provider, decoder.feed(chunk), on_delta):
            # HTTP/1.1 reuses a connection only after its last byte, which usually is here already. Whatever
            # goes wrong from here on, the answer is complete.
            with suppress(Exception):
                async with asyncio.timeout(_DRAIN_S):
                    async for _ in chunks:
                        pass
            return True
    return _feed(exchange, provider, decoder.feed(b"", final=True), on_delta)


def _feed(exchange: Exchange, provider: Provider, events: list[str], on_delta: OnDelta | None) -> bool:
    for data in events:
        if data.startswith("[DONE]"):
            return True
        event = load_object(data)
        if event is None:
            raise unusable_answer(provider, "sent an event that is not JSON")
        _tell(on_delta, exchange.feed(event))
        if exchange.ended:
            return True
    return False


def _tell(on_delta: OnDelta | None, text: str) -> None:
    if on_delta is not None and text:
        on_delta(mend_surrogates(text))


async def _bounded(provider: Provider, response: httpx2.Response) -> AsyncGenerator[bytes]:
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise unusable_answer(provider, f"sent more than {MAX_ANSWER_BYTES} bytes")
        yield chunk


def _keep(kept: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > limit:
        kept.popitem(last=False)
