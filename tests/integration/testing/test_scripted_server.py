"""The scripted server against the real `openai` client."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from retinue.testing import Match, ScriptedRequest, ScriptedServer, Turn, TurnUsage
from retinue.testing.scripts import Call

SYSTEM = "You are researcher."


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as started:
        yield started


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.base_url, api_key="key", max_retries=0) as made:
        yield made


def asked(user: str = "hello", system: str = SYSTEM) -> Any:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


async def chat(client: AsyncOpenAI, messages: Any, *, stream: bool) -> dict[str, Any]:
    """The reply as text, calls, refusal, finish reason and usage, whichever way it came."""
    if not stream:
        whole = await client.chat.completions.create(model="m", messages=messages)
        message = whole.choices[0].message
        return {
            "text": message.content or "",
            "calls": [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []],  # pyright: ignore
            "refusal": message.refusal or "",
            "finish": whole.choices[0].finish_reason,
            "usage": whole.usage and whole.usage.model_dump(exclude_none=True),
        }
    seen: dict[str, Any] = {"text": "", "calls": [], "refusal": "", "finish": None, "usage": None}
    chunks = await client.chat.completions.create(
        model="m", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in chunks:
        if not chunk.choices:
            seen["usage"] = chunk.usage and chunk.usage.model_dump(exclude_none=True)
            continue
        delta = chunk.choices[0].delta
        seen["text"] += delta.content or ""
        seen["refusal"] += delta.refusal or ""
        seen["finish"] = chunk.choices[0].finish_reason or seen["finish"]
        for part in delta.tool_calls or []:
            assert part.function is not None
            if part.id:
                seen["calls"].append((part.id, part.function.name, ""))
            call_id, name, arguments = seen["calls"][part.index]
            seen["calls"][part.index] = (call_id, name, arguments + (part.function.arguments or ""))
    return seen


async def respond(client: AsyncOpenAI, given: Any, *, stream: bool, **fields: Any) -> Any:
    """The response object; a streamed one is rebuilt from its deltas and compared with its last event."""
    fields = {"model": "m", "instructions": SYSTEM, "input": given, **fields}
    if not stream:
        return await client.responses.create(**fields)
    numbers: list[int] = []
    deltas: dict[str, str] = {}
    done: list[Any] = []
    async for event in await client.responses.create(stream=True, **fields):
        numbers.append(event.sequence_number)
        if event.type.endswith(".delta"):
            deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
        elif event.type == "response.output_item.done":
            done.append(event.item)
    assert numbers == list(range(len(numbers)))
    whole = event.response
    assert done == whole.output
    for item in whole.output:
        if item.type == "function_call":
            assert deltas[item.id] == item.arguments
        elif item.type == "message":
            part = item.content[0]
            assert deltas.get(item.id, "") == (part.text if part.type == "output_text" else part.refusal)
    return whole


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_chat_plays_text_calls_and_usage(
    server: ScriptedServer, client: AsyncOpenAI, stream: bool
) -> None:
    long_argument = "a query that is longer than one chunk of a stream, with ümläuts"
    script = server.script("researcher").say("Let me look.").call("search", {"q": long_argument}, id="c1")
    script.call("list_agents").usage(TurnUsage(100, 20, cached_tokens=64, reasoning_tokens=8))
    reply = await chat(client, asked(), stream=stream)
    assert reply["text"] == "Let me look."
    assert [(name, json.loads(arguments)) for _, name, arguments in reply["calls"]] == [
        ("search", {"q": long_argument}),
        ("list_agents", {}),
    ]
    assert reply["calls"][0][0] == "c1"
    assert reply["finish"] == "tool_calls"
    assert reply["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_chat_conversation_is_played_to_its_end(
    server: ScriptedServer, client: AsyncOpenAI, stream: bool
) -> None:
    server.script("researcher").call("look").then("Seen: ${results}")
    messages = asked()
    first = await chat(client, messages, stream=stream)
    assert first == await chat(client, messages, stream=stream), "a repeated request gets the same reply"
    call_id, name, arguments = first["calls"][0]
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    messages.append({"role": "assistant", "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": call_id, "content": "a fox"})
    assert (await chat(client, messages, stream=stream))["text"] == "Seen: a fox"
    assert [request.turn for request in server.requests("researcher")] == [0, 0, 1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_chat_refuses_and_ends_early_as_scripted(
    server: ScriptedServer, client: AsyncOpenAI, stream: bool
) -> None:
    server.script("researcher").refuse("I will not.").then("cut sho").finish_reason("length").usage(None)
    assert (await chat(client, asked(), stream=stream))["refusal"] == "I will not."
    cut = await chat(client, [*asked(), {"role": "assistant", "content": "x"}], stream=stream)
    assert (cut["finish"], cut["usage"]) == ("length", None)


async def test_usage_is_streamed_only_if_asked_for(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("researcher").say("hi")
    chunks = await client.chat.completions.create(model="m", messages=asked(), stream=True)
    seen = [(len(chunk.choices), chunk.usage) async for chunk in chunks]
    assert set(seen) == {(1, None)}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_responses_conversation_is_played_to_its_end(
    server: ScriptedServer, client: AsyncOpenAI, stream: bool
) -> None:
    server.script("researcher").think("hm").say("Looking, looking, looking.").call("look", {"at": "${user}"})
    server.script("researcher", when=Match(turn=1)).then("not played").then("Seen: ${results}").usage(
        TurnUsage(50, 5, cached_tokens=32, reasoning_tokens=2)
    )
    include = ["reasoning.encrypted_content"]
    history: list[Any] = [{"role": "user", "content": "trees"}]
    first = await respond(client, history, stream=stream, include=include)
    assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
    assert first.output[0].encrypted_content == "sealed:hm"
    assert first.output_text == "Looking, looking, looking."
    assert json.loads(first.output[2].arguments) == {"at": "trees"}
    history += [item.model_dump(exclude_none=True) for item in first.output]
    history.append({"type": "function_call_output", "call_id": first.output[2].call_id, "output": "a fox"})
    second = await respond(client, history, stream=stream)
    assert (second.status, second.output_text) == ("completed", "Seen: a fox")
    assert second.usage.input_tokens_details.cached_tokens == 32
    assert second.usage.output_tokens_details.reasoning_tokens == 2
    assert second.usage.total_tokens == 55


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_responses_refuse_and_end_early_as_scripted(
    server: ScriptedServer, client: AsyncOpenAI, stream: bool
) -> None:
    server.script("researcher").refuse("I will not.")
    server.script("researcher", when=Match(user_contains="long")).say("cut sho").finish_reason("length")
    refused = await respond(client, "hello", stream=stream)
    assert refused.output[0].content[0].refusal == "I will not."
    cut = await respond(client, "a long one", stream=stream)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_reasoning_is_sealed_only_if_asked_for(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("researcher").think("hm").say("so")
    assert (await respond(client, "hello", stream=False)).output[0].encrypted_content is None


async def test_usage_defaults_to_a_quarter_of_the_characters(
    server: ScriptedServer, client: AsyncOpenAI
) -> None:
    server.script("a").say("12345678")
    reply = await chat(client, asked("x" * 11, "You are a"), stream=False)
    assert reply["usage"]["prompt_tokens"] == 5
    assert reply["usage"]["completion_tokens"] == 2


async def test_a_tree_of_agents_is_one_function(server: ScriptedServer, client: AsyncOpenAI) -> None:
    """Every level fans out to three children until depth 3, and sums up what its children said."""

    def fan_out(request: ScriptedRequest) -> Turn:
        depth = len(request.last_user)
        if depth == 3:
            return Turn("1")
        if request.turn == 0:
            task = request.last_user + "*"
            return Turn(calls=tuple(Call("run_agent", {"name": "node", "task": task}) for _ in range(3)))
        return Turn(str(sum(int(result.text) for result in request.last_results)))

    async def run(task: str) -> str:
        messages = asked(task, "You are node")
        while True:
            completion = await client.chat.completions.create(model="m", messages=messages)
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            tasks = [json.loads(call.function.arguments)["task"] for call in message.tool_calls]  # pyright: ignore
            results = await asyncio.gather(*(run(task) for task in tasks))
            for call, result in zip(message.tool_calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})

    server.script("node").reply(fan_out)
    assert await run("") == "27"
    assert server.count("node") == 2 * (1 + 3 + 9) + 27


async def test_a_history_that_the_api_refuses_is_refused(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("researcher").call("look").then("done")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [*asked(), {"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(openai.BadRequestError, match="c1"):
        await chat(client, messages, stream=False)
    assert server.requests()[0].status == 400
    with ScriptedServer(check_history=False) as lenient:
        lenient.script("researcher").call("look").then("done")
        other = client.with_options(base_url=lenient.base_url)
        assert (await chat(other, messages, stream=False))["text"] == "done"


async def test_wrong_keys_and_unreadable_bodies_are_refused_and_recorded(client: AsyncOpenAI) -> None:
    with ScriptedServer(api_key="right") as server:
        here = client.with_options(base_url=server.base_url)
        with pytest.raises(openai.AuthenticationError):
            await chat(here, asked(), stream=False)
        with pytest.raises(openai.BadRequestError, match="could not parse"):
            await chat(here.with_options(api_key="right"), [], stream=False)
        assert [request.status for request in server.requests()] == [401, 400]


async def test_models_are_listed(client: AsyncOpenAI) -> None:
    with ScriptedServer(models=("small", "large")) as server:
        listed = await client.with_options(base_url=server.base_url).models.list()
    assert [model.id for model in listed.data] == ["small", "large"]


async def test_a_held_turn_waits_for_its_release(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("researcher").say("at last").hold("door")
    calls = [asyncio.create_task(chat(client, asked(), stream=stream)) for stream in (False, True)]
    await server.wait_for_async(lambda s: s.in_flight("researcher") == 2)
    server.release("door")
    assert [(await call)["text"] for call in calls] == ["at last", "at last"]
    assert server.peak("researcher") == 2
    await server.wait_for_async(lambda s: s.in_flight() == 0)


async def test_a_client_that_leaves_is_seen(server: ScriptedServer, client: AsyncOpenAI) -> None:
    server.script("researcher").say("never").hold("door")
    call = asyncio.create_task(chat(client, asked(), stream=False))
    await server.wait_for_async(lambda s: s.in_flight() == 1)
    call.cancel()
    await server.wait_for_async(lambda s: s.in_flight() == 0)
    left = server.requests()[0]
    assert (left.disconnected, left.status) == (True, None)
    assert left.finished_at is not None
    assert left.finished_at >= left.started_at


async def test_a_stopped_server_cuts_its_clients_and_starts_again_at_the_same_address(
    client: AsyncOpenAI,
) -> None:
    server = ScriptedServer()
    server.script("researcher").say("back").hold("door")
    url = server.start().url
    here = client.with_options(base_url=server.base_url)
    call = asyncio.create_task(chat(here, asked(), stream=False))
    await server.wait_for_async(lambda s: s.in_flight() == 1)
    await asyncio.to_thread(server.stop)
    server.stop()
    with pytest.raises(openai.APIConnectionError):
        await call
    with pytest.raises(openai.APIConnectionError):
        await chat(here, asked(), stream=False)
    assert not server.requests()[0].disconnected, "the server left, not the client"
    with server:
        assert server.url == url
        again = asyncio.create_task(chat(here, asked(), stream=False))
        await server.wait_for_async(lambda s: s.in_flight() == 1)
        server.release("door")
        assert (await again)["text"] == "back"


async def test_waiting_in_vain_is_an_error_that_shows_what_came(
    server: ScriptedServer, client: AsyncOpenAI
) -> None:
    server.script("researcher").say("hi")
    await chat(client, asked(), stream=False)
    with pytest.raises(TimeoutError, match="researcher/0: 200"):
        server.wait_for(lambda s: s.count() == 2, timeout_s=0.01)
    with pytest.raises(TimeoutError, match="researcher/0: 200"):
        await server.wait_for_async(lambda s: s.count() == 2, timeout_s=0.01)


async def test_hundreds_of_slow_requests_are_served_at_once(client: AsyncOpenAI) -> None:
    with ScriptedServer(keep_bodies=False) as server:
        server.script("researcher").say("hi").hold("door")
        here = client.with_options(base_url=server.base_url)
        calls = [asyncio.create_task(chat(here, asked(), stream=False)) for _ in range(300)]
        await server.wait_for_async(lambda s: s.in_flight() == 300, timeout_s=60)
        server.release("door")
        assert [(await call)["text"] for call in calls] == ["hi"] * 300
        assert server.peak() == 300
