"""What is sent has the shapes that the `openai` package declares; the client itself does not check."""

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from retinue.testing import Api, Call, ScriptedRequest, StreamError, StreamErrorForm, Turn, TurnUsage
from retinue.testing.reply import ReplyFacts, reply_facts
from retinue.testing.request import read_request
from retinue.testing.wire_chat import chunks, completion
from retinue.testing.wire_responses import error_event, events, response

TURNS = [
    Turn(),
    Turn("a text of some length that needs more than one event"),
    Turn(calls=(Call("look", {"at": "the sky, for a long time"}, "c1"), Call("wait", "", "c2"))),
    Turn("Let me look.", (Call("look", {"at": "x"}, "c1"),), reasoning="hm", usage=TurnUsage(1, 2, 3, 4)),
    Turn(refusal="I will not do this for you."),
    Turn("cut sho", finish_reason="length"),
    Turn("filtered", finish_reason="content_filter", omit_usage=True),
]
each_turn = pytest.mark.parametrize("turn", TURNS)


def asked(api: Api, turn: Turn) -> tuple[Turn, ScriptedRequest, ReplyFacts]:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "input": "x",
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_usage": True},
    }
    request = read_request(api, body, {})
    return turn, request, reply_facts("a", turn, request)


@each_turn
def test_chat_replies_have_the_declared_shape(turn: Turn) -> None:
    ChatCompletion.model_validate(completion(*asked(Api.CHAT_COMPLETIONS, turn)), strict=True)


@each_turn
def test_chat_chunks_have_the_declared_shape(turn: Turn) -> None:
    read = [
        ChatCompletionChunk.model_validate(chunk, strict=True)
        for chunk in chunks(*asked(Api.CHAT_COMPLETIONS, turn))
    ]
    assert len({chunk.id for chunk in read}) == 1
    assert sum(chunk.usage is not None for chunk in read) == (0 if turn.omit_usage else 1)


@each_turn
def test_responses_have_the_declared_shape(turn: Turn) -> None:
    Response.model_validate(response(*asked(Api.RESPONSES, turn)))


@each_turn
def test_responses_events_have_the_declared_shape(turn: Turn) -> None:
    adapter: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
    read = [adapter.validate_python(event) for event in events(*asked(Api.RESPONSES, turn))]
    assert [event.sequence_number for event in read] == list(range(len(read)))
    assert read[-1].type == ("response.incomplete" if turn.finish_reason else "response.completed")


@pytest.mark.parametrize("form", [StreamErrorForm.EVENT, StreamErrorForm.FAILED])
def test_failing_streams_have_the_declared_shape(form: StreamErrorForm) -> None:
    _, request, facts = asked(Api.RESPONSES, Turn())
    event = error_event(StreamError(form=form), request, facts) | {"sequence_number": 7}
    TypeAdapter[ResponseStreamEvent](ResponseStreamEvent).validate_python(event)


def test_replies_to_the_same_request_are_the_same_bytes() -> None:
    for api, encode in ((Api.CHAT_COMPLETIONS, completion), (Api.RESPONSES, response)):
        assert encode(*asked(api, TURNS[3])) == encode(*asked(api, TURNS[3]))
