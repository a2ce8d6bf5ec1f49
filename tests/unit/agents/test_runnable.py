from __future__ import annotations

from dataclasses import dataclass

import pytest

from retinue.agents import ToolResultError
from retinue.agents.runnable import bind_run, reply_text, runs_async


class Plain:
    def run(self, query: str) -> str:
        return query


class Wide:
    async def run(self, query: str, **kwargs: object) -> dict[str, object]:
        return {"query": query, **kwargs}


@dataclass
class Response:
    final_response: str


@dataclass
class Structured:
    structured: dict[str, int]
    final_response: None = None


def test_extras_that_run_does_not_take_are_left_out() -> None:
    assert bind_run(Plain(), "task", {"scope": "_"})() == "task"


async def test_extras_reach_a_run_that_takes_any() -> None:
    call = bind_run(Wide(), "task", {"scope": "_"})()
    assert await call == {"query": "task", "scope": "_"}  # pyright: ignore[reportGeneralTypeIssues]


def test_the_task_cannot_be_replaced_by_an_extra() -> None:
    assert bind_run(Plain(), "task", {"query": "other"})() == "task"


def test_sync_and_async_objects_are_told_apart() -> None:
    assert runs_async(Wide())
    assert not runs_async(Plain())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, ""),
        (Response("done"), "done"),
        (Structured({"a": 1}), '{"a":1}'),
        ({"a": 1}, '{"a":1}'),
        ([1], "[1]"),
    ],
)
def test_whatever_run_returns_becomes_text(value: object, text: str) -> None:
    assert reply_text(value) == text


def test_an_answer_without_text_is_an_error_not_an_empty_text() -> None:
    with pytest.raises(ToolResultError, match="final_response"):
        reply_text(object())
