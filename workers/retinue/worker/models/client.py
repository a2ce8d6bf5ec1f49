"""Requests over the `openai` client: its transport, headers and status errors, none of its models.

The SDK's typed calls walk the whole history and cost 5 to 20 ms of CPU each; `post` with ready bytes costs
about 1.4. aiohttp's pool stays flat under thousands of connections where the SDK's default one does not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from weakref import WeakKeyDictionary

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream

from retinue.broker.outbound.guarded_http import GuardedTransport, http_client
from retinue.broker.outbound.target_guard import TargetGuard
from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError, ModelRequest, ModelResponse, OnDelta, Provider
from retinue.worker.models.chat import ChatExchange
from retinue.worker.models.dialect import Dialect
from retinue.worker.models.errors import beyond_measure, status_error, transport_error, unusable_answer
from retinue.worker.models.responses import ResponsesExchange
from retinue.worker.models.sdk_clients import ClientPool, keep, make_client, pooled_http
from retinue.worker.models.sse import SseDecoder
from retinue.worker.models.wire import load_object, mend_surrogates

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Where an answer is given up, as it is sent, each piece with its frame: no model writes this much."""

MAX_ENTRY_BYTES = 4 * 1024 * 1024
"""Longest answer put together, which is sent along with every later request."""

MAX_CALLS = 1_000
"""Most calls in one answer."""

_DRAIN_S = 0.1
_CONNECT_S = 60.0
_DIALECTS_KEPT = 1_024

Exchange = ChatExchange | ResponsesExchange


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
        guard: Looks at the addresses of guarded providers; without it these are refused.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 60.0,
        max_connections: int = 10_000,
        keepalive_s: float = 60.0,
        guard: TargetGuard | None = None,
    ) -> None:
        self._guard = guard
        self._timeout = httpx2.Timeout(timeout_s, connect=min(connect_timeout_s, timeout_s))
        self._limits = httpx2.Limits(max_connections=max_connections, keepalive_expiry=keepalive_s)
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ClientPool] = WeakKeyDictionary()
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
                keep(self._dialects, place, dialect, _DIALECTS_KEPT)

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
            async with self._client(provider) as client:
                response = await client.post(
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

    @asynccontextmanager
    async def _client(self, provider: Provider) -> AsyncGenerator[AsyncOpenAI]:
        if not provider.guarded:
            yield self._pooled(provider)
            return
        if self._guard is None:
            raise ModelError(
                f"provider {provider.name!r} has a URL that came with the launch; there is no guard for it",
                classification=ErrorClassification.MODEL_REJECTED,
            )
        # One for each request: it shares no connection with anybody.
        timeout = self._timeout
        transport = GuardedTransport(self._guard)
        async with http_client(
            transport, timeout_s=timeout.connect or _CONNECT_S, read_timeout_s=timeout.read
        ) as http:
            yield make_client(provider, http)

    def _pooled(self, provider: Provider) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            http = pooled_http(limits=self._limits, timeout=self._timeout)
            pool = self._pools[loop] = ClientPool(http)
        return pool.client(provider)


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
    return _measured(provider, exchange.finish(marked_end=marked_end))


def _measured(provider: Provider, response: ModelResponse) -> ModelResponse:
    size = len(response.entry.encode())
    if size > MAX_ENTRY_BYTES:
        raise beyond_measure(
            provider, f"sent an answer of {size:,} bytes; the limit is {MAX_ENTRY_BYTES:,} bytes"
        )
    calls = len(response.tool_calls)
    if calls > MAX_CALLS:
        raise beyond_measure(provider, f"asked for {calls:,} calls at once; the limit is {MAX_CALLS:,}")
    return response


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
            raise beyond_measure(
                provider, f"sent more than {MAX_ANSWER_BYTES:,} bytes, which is the limit of an answer"
            )
        yield chunk
