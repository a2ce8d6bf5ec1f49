"""Model calls over real connections: both APIs, streamed and not, and every way to fail."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from retinue.contract import ErrorClassification
from retinue.testing import (
    CutStream,
    DropConnection,
    EndlessStream,
    ErrorReply,
    ScriptedServer,
    SlowStart,
    StreamError,
    TruncatedBody,
    TurnUsage,
    WrongJson,
    bad_request,
    context_too_long,
    overloaded,
    quota_exhausted,
    rate_limited,
    server_error,
    unauthorized,
)
from retinue.worker.models import (
    Api,
    ModelError,
    ModelRequest,
    ModelUsage,
    OpenAiModel,
    Provider,
    RetryPolicy,
    ToolSchema,
    tool_result_head,
    user_entry,
)

KEY = "sk-test-SECRET"
WAYS = [(api, stream) for api in ("chat_completions", "responses") for stream in (True, False)]
every_way = pytest.mark.parametrize(("api", "stream"), WAYS)

SEARCH = ToolSchema("search", "Finds.", {"type": "object", "properties": {"q": {"type": "string"}}})


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(api_key=KEY) as running:
        yield running


@pytest.fixture
async def model() -> AsyncIterator[OpenAiModel]:
    made = OpenAiModel(timeout_s=60.0)
    yield made
    await made.close()


def provider(base_url: str, api: Api = "chat_completions", **fields: Any) -> Provider:
    return Provider(
        **{"name": "local", "base_url": base_url, "api": api, "api_key": SecretStr(KEY), **fields}
    )


def ask(target: Provider, *entries: str, **fields: Any) -> ModelRequest:
    history = entries or (user_entry(target.api, "hello"),)
    return ModelRequest(provider=target, model="m", system="You are helper.", entries=history, **fields)


@every_way
async def test_an_answer_comes_with_its_text_and_usage(
    server: ScriptedServer, model: OpenAiModel, api: Api, stream: bool
):
    server.script("helper").say("Grüße, 😀!").usage(TurnUsage(11, 7, 5, 3)).pace(chunk_chars=3)
    pieces: list[str] = []
    target = provider(server.base_url, api, stream=stream)
    response = await model.complete(ask(target), on_delta=pieces.append)
    assert response.text == "".join(pieces) == "Grüße, 😀!"
    assert (len(pieces) > 1) is stream
    assert response.usage == ModelUsage(11, 7, cached_tokens=5, reasoning_tokens=3)
    assert response.finish_reason == "stop"
    assert server.requests()[0].stream is stream


@every_way
async def test_a_conversation_with_tools_and_reasoning_goes_back_as_it_came(
    server: ScriptedServer, model: OpenAiModel, api: Api, stream: bool
):
    script = (
        server.script("helper").call("search", {"q": "x"}, id="call_x").call("search", "{broken", id="call_x")
    )
    if api == "responses":
        script.think("hidden")
    script.then("Done: ${results}")
    target = provider(server.base_url, api, stream=stream)
    first = await model.complete(ask(target, tools=[SEARCH]))
    assert [(call.name, call.arguments) for call in first.tool_calls] == [
        ("search", '{"q": "x"}'),
        ("search", "{broken"),
    ]
    results = [tool_result_head(api, call.call_id) + '"found"}' for call in first.tool_calls]
    second = await model.complete(
        ask(target, user_entry(api, "hello"), first.entry, *results, tools=[SEARCH])
    )
    assert "found" in second.text
    sent = server.requests()[1].request
    assert sent is not None
    assert sent.body["tools"]
    if api == "responses":
        reasoning = next(item for item in sent.body["input"] if item["type"] == "reasoning")
        assert reasoning["encrypted_content"] == "sealed:hidden"
        assert sent.body["store"] is False


@every_way
async def test_a_refusal_comes_back_as_one(
    server: ScriptedServer, model: OpenAiModel, api: Api, stream: bool
):
    server.script("helper").refuse("I will not.")
    response = await model.complete(ask(provider(server.base_url, api, stream=stream)))
    assert response.refusal == "I will not."


FAULTS = [
    (rate_limited(retry_after_s=7), "MODEL_RATE_LIMITED", True),
    (quota_exhausted(), "MODEL_REJECTED", False),
    (server_error(), "MODEL_UNAVAILABLE", True),
    (overloaded(), "MODEL_UNAVAILABLE", True),
    (bad_request(), "MODEL_REJECTED", False),
    (unauthorized(), "MODEL_REJECTED", False),
    (context_too_long(), "CONTEXT_TOO_LONG", False),
    (ErrorReply(400, "content_filter"), "CONTENT_REFUSED", False),
    (DropConnection(), "MODEL_UNAVAILABLE", True),
    (TruncatedBody(), "MODEL_UNAVAILABLE", True),
    (CutStream(), "MODEL_UNAVAILABLE", True),
    (CutStream(clean=True), "MODEL_UNAVAILABLE", True),
    (WrongJson(), "MODEL_UNAVAILABLE", True),
    (StreamError(), "MODEL_UNAVAILABLE", True),
    (StreamError(code="rate_limit_exceeded"), "MODEL_RATE_LIMITED", True),
]


@every_way
@pytest.mark.parametrize(("fault", "classification", "retryable"), FAULTS)
async def test_each_failure_has_its_class_and_the_next_call_works(
    server: ScriptedServer,
    model: OpenAiModel,
    api: Api,
    stream: bool,
    fault: Any,
    classification: str,
    retryable: bool,
):
    server.script("helper").say("a text of some length that can be cut").fault(fault)
    request = ask(provider(server.base_url, api, stream=stream))
    with pytest.raises(ModelError) as caught:
        await model.complete(request)
    error = caught.value
    if isinstance(fault, StreamError) and not stream:
        assert error.status == 500
    else:
        assert (error.classification, error.retryable) == (ErrorClassification(classification), retryable)
    assert "hello" not in str(error)
    assert KEY not in repr(vars(error))
    # Nothing of what went wrong is chained to it, for chains get logged.
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert (await model.complete(request)).text == "a text of some length that can be cut"


@every_way
async def test_no_log_line_of_any_level_holds_a_key_a_prompt_or_an_output(
    server: ScriptedServer, model: OpenAiModel, caplog: pytest.LogCaptureFixture, api: Api, stream: bool
):
    server.script("helper").say("OUTPUT").fault(bad_request("the words PROMPT are bad"))
    target = provider(server.base_url, api, stream=stream)
    request = ask(target, user_entry(api, "PROMPT"))
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(ModelError):
            await model.complete(request)
        await model.complete(request)
    assert caplog.records
    assert not any(word in caplog.text for word in (KEY, "PROMPT", "OUTPUT"))


async def test_the_wish_of_a_rate_limited_server_is_carried(server: ScriptedServer, model: OpenAiModel):
    server.script("helper").say("x").fault(rate_limited(retry_after_s=7, retry_after_ms=1500))
    with pytest.raises(ModelError) as caught:
        await model.complete(ask(provider(server.base_url)))
    assert (caught.value.retry_after_s, caught.value.status) == (1.5, 429)


async def test_the_policy_and_the_model_together_reach_an_answer(server: ScriptedServer, model: OpenAiModel):
    server.script("helper").say("at last").fault(rate_limited(retry_after_ms=10)).fault(DropConnection())
    told: list[tuple[ErrorClassification, int]] = []

    async def on_retry(reason: ErrorClassification, _delay_ms: int, attempt: int) -> None:
        told.append((reason, attempt))

    policy = RetryPolicy(uniform=lambda low, _high: low)
    request = ask(provider(server.base_url))
    response = await policy.run(lambda: model.complete(request), on_retry=on_retry)
    assert response.text == "at last"
    assert told == [(ErrorClassification.MODEL_RATE_LIMITED, 1), (ErrorClassification.MODEL_UNAVAILABLE, 2)]


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_the_task_closes_the_connection_at_once(
    server: ScriptedServer, model: OpenAiModel, stream: bool
):
    server.script("helper").say("x").fault(EndlessStream(), times=None)
    arrived: asyncio.Event = asyncio.Event()
    request = ask(provider(server.base_url, stream=stream))
    task = asyncio.create_task(model.complete(request, on_delta=lambda _text: arrived.set()))
    if stream:
        await asyncio.wait_for(arrived.wait(), 30)
    else:
        await server.wait_for_async(lambda s: s.in_flight() == 1, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.wait_for_async(lambda s: s.in_flight() == 0, 30)
    assert server.requests()[0].disconnected


async def test_hundreds_of_calls_are_under_way_at_once(server: ScriptedServer, model: OpenAiModel):
    server.script("helper").say("ok").hold("door")
    request = ask(provider(server.base_url))
    calls = [asyncio.create_task(model.complete(request)) for _ in range(300)]
    await server.wait_for_async(lambda s: s.in_flight() == 300, 50)
    server.release("door")
    assert {answer.text for answer in await asyncio.gather(*calls)} == {"ok"}


async def test_a_refused_connection_is_no_time_out(model: OpenAiModel):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        target = provider(f"http://127.0.0.1:{held.getsockname()[1]}/v1")
        with pytest.raises(ModelError, match="cannot be connected to") as caught:
            await model.complete(ask(target))
    assert caught.value.classification is ErrorClassification.MODEL_UNAVAILABLE
    assert caught.value.retryable


@pytest.mark.parametrize("base_url", ["localhost:1/v1", "", "http://host:port/v1", "ftp://host/v1"])
async def test_a_base_url_that_is_none_is_refused_without_a_call(model: OpenAiModel, base_url: str):
    with pytest.raises(ModelError, match="base_url") as caught:
        await model.complete(ask(provider(base_url)))
    assert caught.value.classification is ErrorClassification.MODEL_REJECTED


async def test_a_silent_server_times_out(server: ScriptedServer):
    server.script("helper").say("x").fault(SlowStart(30))
    impatient = OpenAiModel(timeout_s=1.5)
    try:
        with pytest.raises(ModelError, match="silent") as caught:
            await impatient.complete(ask(provider(server.base_url)))
    finally:
        await impatient.close()
    assert caught.value.retryable


async def test_openai_itself_is_not_called_without_a_key(model: OpenAiModel):
    target = Provider(name="openai", base_url="https://api.openai.com/v1")
    with pytest.raises(ModelError, match="api_key") as caught:
        await model.complete(ask(target))
    assert caught.value.classification is ErrorClassification.MODEL_REJECTED


Handler = Callable[[web.Request], Any]


@asynccontextmanager
async def odd_server(answer: Handler) -> AsyncIterator[str]:
    """A server for what a scripted one never does; yields its base URL."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_post("/v1/responses", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def lingering_server(start: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A server that sends the start of a stream and no more; the event tells that its client left."""
    left = asyncio.Event()

    async def linger(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(start.encode())
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    async with odd_server(linger) as base_url:
        yield base_url, left


def completion(text: str = "ok") -> web.Response:
    message = {"role": "assistant", "content": text}
    return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


async def test_a_foreign_server_gets_nothing_that_is_meant_for_openai(
    model: OpenAiModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET-env")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-SECRET")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-SECRET")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: SECRET\nAuthorization: Bearer SECRET")
    seen: list[Mapping[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers)
        return completion()

    async with odd_server(answer) as base_url:
        await model.complete(ask(provider(base_url, api_key=None)))
        await model.complete(ask(provider(base_url, headers={"X-Mine": SecretStr("yes")})))
        own = {"Authorization": SecretStr("Token t")}
        await model.complete(ask(provider(base_url, headers=own)))
        await model.close()
    assert not any("SECRET" in value for headers in seen for value in headers.values() if KEY not in value)
    assert [headers["Authorization"] for headers in seen] == ["Bearer none", f"Bearer {KEY}", "Token t"]
    assert seen[1]["X-Mine"] == "yes"
    assert all(headers["Content-Type"] == "application/json" for headers in seen)


async def test_a_redirect_is_not_followed_with_the_credentials(model: OpenAiModel):
    async def elsewhere(_request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/v1/chat/completions"})

    async with odd_server(elsewhere) as base_url:
        with pytest.raises(ModelError) as caught:
            await model.complete(ask(provider(base_url)))
        await model.close()
    assert (caught.value.status, caught.value.retryable) == (307, False)


async def test_a_server_that_ignores_stream_is_read_as_it_answers(model: OpenAiModel):
    async def whole(_request: web.Request) -> web.Response:
        return completion("whole")

    pieces: list[str] = []
    async with odd_server(whole) as base_url:
        response = await model.complete(ask(provider(base_url, stream=True)), on_delta=pieces.append)
        await model.close()
    assert response.text == "whole"
    assert pieces == ["whole"]


async def test_a_page_instead_of_an_answer_points_at_the_base_url(model: OpenAiModel):
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>welcome</html>", content_type="text/html")

    async with odd_server(page) as base_url:
        with pytest.raises(ModelError, match="base_url"):
            await model.complete(ask(provider(base_url)))
        await model.close()


CHUNK = {"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": "stop"}]}
FINAL = {"type": "response.completed", "response": {"status": "completed", "output": []}}


@pytest.mark.parametrize(
    ("api", "end"),
    [
        ("chat_completions", f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"),
        ("responses", f"data: {json.dumps(FINAL)}\n\n"),
    ],
)
async def test_a_stream_that_stays_open_after_its_end_is_not_waited_for(
    model: OpenAiModel, api: Api, end: str
):
    async with lingering_server(end) as (base_url, left), asyncio.timeout(30):
        response = await model.complete(ask(provider(base_url, api)))
        assert response.finish_reason == "stop"
        await left.wait()


async def test_a_stream_that_makes_no_sense_is_left_at_once(model: OpenAiModel):
    async with lingering_server("data: nonsense\n\n") as (base_url, left), asyncio.timeout(30):
        with pytest.raises(ModelError, match="not JSON") as caught:
            await model.complete(ask(provider(base_url)))
        await left.wait()
    assert caught.value.retryable


async def test_a_param_that_a_model_does_not_take_is_corrected_once_and_remembered(model: OpenAiModel):
    bodies: list[dict[str, Any]] = []

    async def picky(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        if "max_tokens" in bodies[-1]:
            said = "Unsupported parameter: 'max_tokens' is not supported with this model."
            return web.json_response(
                {"error": {"message": said, "code": "unsupported_parameter"}}, status=400
            )
        return completion()

    async with odd_server(picky) as base_url:
        request = ask(provider(base_url), params={"max_tokens": 5})
        await model.complete(request)
        await model.complete(request)
        await model.close()
    limits = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in bodies]
    assert limits == [(5, None), (None, 5), (None, 5)]


async def test_a_model_that_does_not_reason_is_asked_again_without_encrypted_reasoning(model: OpenAiModel):
    included: list[object] = []

    async def plain(request: web.Request) -> web.Response:
        included.append((await request.json()).get("include"))
        if included[-1]:
            said = {"error": {"message": "Encrypted content is not supported with this model."}}
            return web.json_response(said, status=400)
        return web.json_response({"status": "completed", "output": []})

    async with odd_server(plain) as base_url:
        await model.complete(ask(provider(base_url, "responses")))
        await model.close()
    assert included == [["reasoning.encrypted_content"], None]


def test_one_model_serves_several_event_loops(server: ScriptedServer):
    server.script("helper").say("ok").repeat_last()
    model = OpenAiModel()
    request = ask(provider(server.base_url))

    async def call() -> str:
        try:
            return (await model.complete(request)).text
        finally:
            await model.close()

    assert [asyncio.run(call()) for _ in range(2)] == ["ok", "ok"]


async def test_connections_are_used_again(model: OpenAiModel):
    ports: set[int] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
        await response.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
        return response

    async with odd_server(answer) as base_url:
        target = provider(base_url)
        for number in range(5):
            # Providers made anew for each run, with overrides of their own.
            await model.complete(ask(replace(target, name=f"run{number}")))
        await model.close()
    assert len(ports) == 1
