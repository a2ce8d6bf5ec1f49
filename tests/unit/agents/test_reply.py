"""What is read out of whatever an agent returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from retinue.agents import ToolResultError
from retinue.agents.reply import Reply, read_reply


@dataclass
class Response:
    final_response: str | None = None
    structured: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Article:
    text: str
    score: int


class Verdict(BaseModel):
    title: str
    content: str


class RunResult:
    """As OpenAI's and pydantic-ai's: the answer is a property, of whatever type."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    @property
    def output(self) -> object:
        return self._answer

    def text(self) -> str:
        return "a method, and no field"


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        ("done", Reply("done")),
        ({"a": 1}, Reply('{"a":1}', {"a": 1})),
        (Response("done"), Reply("done")),
        (Response("done", {"a": 1}), Reply("done")),
        (Response("", {"a": 1}), Reply('{"a":1}', {"a": 1})),
        (SimpleNamespace(final_output="done"), Reply("done")),
        (SimpleNamespace(final_output=None, output="done"), Reply("done")),
        (RunResult("done"), Reply("done")),
        (RunResult({"a": 1}), Reply('{"a":1}', {"a": 1})),
        (
            RunResult(Verdict(title="t", content="c")),
            Reply('{"title":"t","content":"c"}', {"title": "t", "content": "c"}),
        ),
        (RunResult([1]), Reply("[1]")),
        (SimpleNamespace(content="done"), Reply("done")),
        (Article("t", 3), Reply('{"text":"t","score":3}', {"text": "t", "score": 3})),
        (
            Verdict(title="t", content="c"),
            Reply('{"title":"t","content":"c"}', {"title": "t", "content": "c"}),
        ),
        (RootModel[list[int]]([1]), Reply("[1]")),
        ([1], Reply("[1]")),
        (0, Reply("0")),
        (False, Reply("false")),
    ],
)
def test_text_is_the_reply_and_objects_are_payloads(value: object, reply: Reply) -> None:
    assert read_reply(value) == reply


@pytest.mark.parametrize(
    "value",
    [None, "", " \n", {}, Response(), Response(""), RunResult(None), RunResult({}), SimpleNamespace(text="")],
)
def test_an_empty_answer_is_an_error_and_no_silence(value: object) -> None:
    with pytest.raises(ToolResultError, match="answered nothing"):
        read_reply(value)


@pytest.mark.parametrize("value", [object(), SimpleNamespace(answer="x"), RunResult(object())])
def test_an_answer_that_cannot_be_read_names_the_ways(value: Any) -> None:
    with pytest.raises(ToolResultError, match="final_response or final_output or output"):
        read_reply(value)
