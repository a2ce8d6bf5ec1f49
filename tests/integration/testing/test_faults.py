"""Scripted faults, as the real `openai` client meets them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from retinue.testing import (
    CutStream,
    DropConnection,
    EndlessStream,
    ErrorReply,
    ScriptedServer,
    SlowStart,
    SlowStream,
    StreamError,
    StreamErrorForm,
    TruncatedBody,
    WrongJson,
    bad_request,
    context_too_long,
    overloaded,
    quota_exhausted,
    rate_limited,
    server_error,
    unauthorized,
    unavailable,
)

ASKED: Any = [{"role": "system", "content": "You are a."}, {"role": "user", "content": "hello"}]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as started:
        yield started


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key="key", max_retries=0) as made:
        yield made


async def chat_whole(client: AsyncOpenAI) -> str:
    reply = await client.chat.completions.create(model="m", messages=ASKED)
    return reply.choices[0].message.content or ""


async def chat_stream(client: AsyncOpenAI) -> str:
    """The text, marked with a full stop if the stream came to its regular end."""
    text = ""
    async for chunk in await client.chat.completions.create(model="m", messages=ASKED, stream=True):
        text += (chunk.choices[0].delta.content or "") + ("." if chunk.choices[0].finish_reason else "")
    return text


async def responses_whole(client: AsyncOpenAI) -> str:
    return (await client.responses.create(model="m", input=ASKED)).output_text


async def responses_stream(client: AsyncOpenAI) -> str:
    text = ""
    async for event in await client.responses.create(model="m", input=ASKED, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            text += "."
    return text


WHOLE = [chat_whole, responses_whole]
STREAMS = [chat_stream, responses_stream]
Ask = Callable[[AsyncOpenAI], Any]
every_way = pytest.mark.parametrize("ask", WHOLE + STREAMS)
every_stream = pytest.mark.parametrize("ask", STREAMS)
whole_only = pytest.mark.parametrize("ask", WHOLE)


@every_way
@pytest.mark.parametrize(
    ("fault", "kind", "code", "headers"),
    [
        (rate_limited(), openai.RateLimitError, "rate_limit_exceeded", {}),
        (rate_limited(retry_after_s=2), openai.RateLimitError, "rate_limit_exceeded", {"retry-after": "2"}),
        (
            rate_limited(retry_after_ms=1500),
            openai.RateLimitError,
            "rate_limit_exceeded",
            {"retry-after-ms": "1500"},
        ),
        (quota_exhausted(), openai.RateLimitError, "insufficient_quota", {}),
        (server_error(), openai.InternalServerError, "server_error", {}),
        (unavailable(retry_after_s=0.5), openai.InternalServerError, None, {"retry-after": "0.5"}),
        (overloaded(), openai.InternalServerError, "overloaded", {}),
        (context_too_long(), openai.BadRequestError, "context_length_exceeded", {}),
        (bad_request(), openai.BadRequestError, None, {}),
        (unauthorized(), openai.AuthenticationError, "invalid_api_key", {}),
        (ErrorReply(418, headers={"x-kind": "tea"}), openai.APIStatusError, None, {"x-kind": "tea"}),
    ],
)
async def test_an_error_reply_has_status_code_and_headers_and_then_ends(
    server: ScriptedServer,
    client: AsyncOpenAI,
    ask: Ask,
    fault: ErrorReply,
    kind: type[openai.APIStatusError],
    code: str | None,
    headers: dict[str, str],
) -> None:
    server.script("a").say("hello there").fault(fault)
    with pytest.raises(kind) as caught:
        await ask(client)
    assert caught.value.status_code == fault.status
    assert code is None or caught.value.code == code
    assert {name: caught.value.response.headers.get(name) for name in headers} == headers
    assert headers or "retry-after" not in caught.value.response.headers
    assert (await ask(client)).startswith("hello there")
    assert [request.status for request in server.requests("a")] == [fault.status, 200]


@every_way
async def test_a_dropped_connection_has_no_answer(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(DropConnection())
    with pytest.raises(openai.APIConnectionError):
        await ask(client)
    dropped = server.requests()[0]
    assert (dropped.status, dropped.disconnected, dropped.fault) == (None, False, "DropConnection")


@every_way
@pytest.mark.parametrize("fault", [CutStream(), TruncatedBody()])
async def test_an_answer_cut_half_way_is_an_error(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask, fault: CutStream | TruncatedBody
) -> None:
    server.script("a").say("hello " * 20).fault(fault)
    # An exception of the HTTP library reaches the reader of a stream as it is.
    with pytest.raises(Exception, match=r"(?i)connection|incomplete|peer closed|body"):
        await ask(client)
    assert not server.requests()[0].disconnected


@every_stream
async def test_a_stream_may_end_properly_but_too_early(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello " * 20).fault(CutStream(clean=True))
    text = await ask(client)
    assert text
    assert not text.endswith(".")
    assert (await ask(client)).endswith(".")


@every_stream
async def test_a_stream_is_cut_after_the_given_number_of_events(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    opening = 1 if ask is chat_stream else 4
    server.script("a").say("x" * 64).fault(CutStream(after_events=opening + 1, clean=True))
    assert await ask(client) == "x" * 16


@every_way
async def test_wrong_json_cannot_be_parsed(server: ScriptedServer, client: AsyncOpenAI, ask: Ask) -> None:
    server.script("a").say("hello").fault(WrongJson())
    with pytest.raises(ValueError):
        await ask(client)
    assert server.requests()[0].status == 200


@every_stream
async def test_an_error_inside_a_stream_has_its_code(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(StreamError("overloaded", "try later", StreamErrorForm.NESTED))
    with pytest.raises(openai.APIError, match="try later") as caught:
        await ask(client)
    assert caught.value.code == "overloaded"
    assert not isinstance(caught.value, openai.APIStatusError)


@pytest.mark.parametrize("form", [StreamErrorForm.EVENT, StreamErrorForm.FAILED])
async def test_a_responses_stream_may_fail_by_an_event_of_its_own(
    server: ScriptedServer, client: AsyncOpenAI, form: StreamErrorForm
) -> None:
    server.script("a").say("hello").fault(StreamError("overloaded", "try later", form))
    async for event in await client.responses.create(model="m", input=ASKED, stream=True):
        last: Any = event
    error = last if form is StreamErrorForm.EVENT else last.response.error
    assert (error.code, error.message) == ("overloaded", "try later")


@whole_only
async def test_without_streaming_the_stream_error_is_a_500(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(StreamError("overloaded", "try later"))
    with pytest.raises(openai.InternalServerError, match="try later"):
        await ask(client)


@every_way
async def test_a_slow_start_runs_into_the_clients_time_out_once(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(SlowStart(30))
    with pytest.raises(openai.APITimeoutError):
        await ask(client.with_options(timeout=1.5))
    await server.wait_for_async(lambda s: s.in_flight() == 0)
    assert server.requests()[0].disconnected
    assert (await ask(client)).startswith("hello")


@every_stream
async def test_a_slow_stream_pauses_between_its_events(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(SlowStream(0.02))
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await ask(client) == "hello."
    events = 4 if ask is chat_stream else 9
    assert loop.time() - started >= 0.02 * (events - 1) * 0.9
    assert server.requests()[0].fault == "SlowStream"


async def test_a_turn_sets_its_own_pace_over_the_servers(client: AsyncOpenAI) -> None:
    with ScriptedServer(latency_s=60) as server:
        server.script("a").say("hello").pace(first_byte_after_s=0.05)
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await chat_whole(client.with_options(base_url=server.base_url)) == "hello"
        assert 0.05 <= loop.time() - started < 30


async def test_the_servers_latency_is_the_default_pace(client: AsyncOpenAI) -> None:
    with ScriptedServer(latency_s=0.1) as server:
        server.script("a").say("hello")
        loop = asyncio.get_running_loop()
        started = loop.time()
        await chat_whole(client.with_options(base_url=server.base_url))
        assert loop.time() - started >= 0.1


@every_stream
async def test_an_endless_stream_ends_when_the_client_leaves(
    server: ScriptedServer, client: AsyncOpenAI, ask: Ask
) -> None:
    server.script("a").say("hello").fault(EndlessStream(0.001))
    call = asyncio.create_task(ask(client))
    await server.wait_for_async(lambda s: s.count() == 1 and s.requests()[0].status == 200)
    call.cancel()
    await server.wait_for_async(lambda s: s.in_flight() == 0)
    assert server.requests()[0].disconnected


async def test_an_endless_stream_sends_readable_events(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("a").say("hello").fault(EndlessStream(0.001), times=2)
    kinds: list[str] = []
    async with await client.responses.create(model="m", input=ASKED, stream=True) as events:
        async for event in events:
            kinds.append(event.type)
            if len(kinds) == 8:
                break
    assert kinds[0] == "response.created"
    assert kinds[4:] == ["response.output_text.delta"] * 4
    text = ""
    async with await client.chat.completions.create(model="m", messages=ASKED, stream=True) as chunks:
        async for chunk in chunks:
            text += chunk.choices[0].delta.content or ""
            if len(text) > 30:
                break
    assert text.startswith("on and on on and on ")


async def test_a_fault_of_the_server_strikes_any_script(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.fault(overloaded(), times=1)
    server.script("a").say("hello")
    with pytest.raises(openai.InternalServerError):
        await chat_whole(client)
    assert await chat_whole(client) == "hello"
