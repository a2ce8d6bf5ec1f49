"""Scripts as JSON data."""

import json
import re
from typing import Any

import pytest

from retinue.testing import faults, script_file
from retinue.testing.book import ScriptBook, Selection
from retinue.testing.request import Api, read_request
from retinue.testing.script_file import add_scripts
from retinue.testing.scripts import Call, ScriptError, TurnUsage


def play(data: dict[str, Any], system: str = "You are a", user: str = "x") -> Selection:
    book = ScriptBook()
    add_scripts(book, data)
    body = {"model": "m", "instructions": system, "input": user}
    return book.select(read_request(Api.RESPONSES, body, {}))


def one_turn(turn: object) -> dict[str, Any]:
    return {"scripts": [{"agent": "a", "turns": [turn]}]}


def test_the_example_of_the_docstring_is_valid() -> None:
    example = re.search(r"\n    \{\n.*?\n    \}\n", script_file.__doc__ or "", re.DOTALL)
    assert example is not None
    data = json.loads(example.group())
    assert play(data, "You are researcher", "fox").fault == faults.unavailable()
    del data["faults"]
    first = play(data, "You are researcher", "fox").reply
    assert first.calls[0].tool == "search"
    assert first.calls[0].arguments == {"query": "fox"}
    assert play(data, "You are writer", "a poem").reply.text == "Roses are red."
    assert play(data, "You are writer", "a novel").script == "anyone"


def test_a_turn_has_the_fields_of_a_turn() -> None:
    turn = {
        "text": "t",
        "calls": [{"tool": "look", "arguments": "{broken", "id": "c"}],
        "usage": {"input_tokens": 5, "output_tokens": 6},
        "gate": "door",
        "chunk_interval_s": 0.5,
    }
    reply = play(one_turn(turn)).reply
    assert reply.calls == (Call("look", "{broken", "c"),)
    assert reply.usage == TurnUsage(5, 6)
    assert (reply.gate, reply.chunk_interval_s) == ("door", 0.5)


def test_the_last_turn_of_a_script_repeats_if_asked() -> None:
    history = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "one"}]
    body = {"model": "m", "instructions": "You are a", "input": history}
    request = read_request(Api.RESPONSES, body, {})
    for repeats in (True, False):
        data = one_turn("one")
        data["scripts"][0]["repeat_last"] = repeats
        book = ScriptBook()
        add_scripts(book, data)
        assert (book.select(request).problem is None) is repeats


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"fault": "rate_limited", "retry_after_s": 2}, faults.rate_limited(retry_after_s=2)),
        ({"fault": "cut_stream", "after_events": 3, "clean": True}, faults.CutStream(3, clean=True)),
        ({"fault": "error_reply", "status": 418}, faults.ErrorReply(418)),
        ({"fault": "slow_start", "seconds": 1, "times": None, "scope": "each_history"}, faults.SlowStart(1)),
    ],
)
def test_faults_are_named_with_their_arguments_beside(given: dict[str, Any], fault: faults.Fault) -> None:
    assert play(one_turn({"text": "t", "faults": [given]})).fault == fault
    everywhere = one_turn("t")
    everywhere["scripts"][0]["faults"] = [given]
    assert play(everywhere).fault == fault


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "not a script file"),
        ({"script": []}, "script"),
        ({"scripts": [{"turns": []}]}, "give `agent`, or `name` and `when`"),
        (one_turn({"txt": "t"}), r"scripts\.0\.turns\.0\.turn\.txt"),
        (one_turn({"calls": [{"tool": "t", "args": {}}]}), r"calls\.0\.args"),
        (one_turn({"text": "t", "faults": [{"fault": "gremlin"}]}), "gremlin.*rate_limited"),
        (one_turn({"text": "t", "faults": [{"fault": "slow_start"}]}), "seconds"),
        (one_turn({"text": "t", "faults": [{"fault": "slow_start", "seconds": "x"}]}), "seconds"),
        (one_turn({"text": "t", "faults": [{"fault": "overloaded", "times": "x"}]}), "times"),
        (one_turn({"text": "t", "faults": [{"fault": "overloaded", "scope": "x"}]}), "scope"),
    ],
)
def test_another_form_is_an_error_that_says_where(data: Any, place: str) -> None:
    with pytest.raises(ScriptError, match=f"(?s){place}"):
        add_scripts(ScriptBook(), data)
