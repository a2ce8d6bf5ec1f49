from __future__ import annotations

import pytest

from retinue.agents import NotRunnableError
from retinue.agents.runnable import bind_run, check_runnable, runs_async


class Plain:
    def run(self, query: str) -> str:
        return query


class Wide:
    async def run(self, query: str, **kwargs: object) -> dict[str, object]:
        return {"query": query, **kwargs}


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


class Holder:
    """An object whose `run` is the given function."""

    def __init__(self, run: object) -> None:
        self.run = run


EXTRAS = {"scope": "_", "context": "c", "task": "extra"}


@pytest.mark.parametrize(
    ("run", "given"),
    [
        (lambda query: query, "goal"),
        (lambda *, query: query, "goal"),
        (lambda task: task, "goal"),
        (lambda task, /: task, "goal"),
        (lambda query, /: query, "goal"),
        (lambda task, query: (task, query), None),
        (lambda task, **rest: (task, sorted(rest)), ("goal", ["context", "scope"])),
        (lambda task, /, **rest: (task, sorted(rest)), ("goal", ["context", "scope"])),
        (lambda context: context, "goal"),
        (lambda task, context=None: (task, context), ("goal", "c")),
        (lambda task, other="x": (task, other), ("goal", "x")),
        (lambda *tasks: tasks, ("goal",)),
        (lambda **fields: fields["query"], "goal"),
        (lambda *tasks, **fields: (tasks, fields["query"]), ((), "goal")),
        (lambda scope, query: (query, scope), None),
    ],
)
def test_the_task_comes_by_name_where_there_is_a_query_and_first_elsewhere(
    run: object, given: object
) -> None:
    if given is None:
        with pytest.raises(NotRunnableError, match="besides the task"):
            check_runnable(Holder(run), name="a")
        return
    check_runnable(Holder(run), name="a")

    assert bind_run(Holder(run), "goal", EXTRAS)() == given


def test_a_run_that_takes_nothing_is_refused() -> None:
    with pytest.raises(NotRunnableError, match="takes no task"):
        check_runnable(Holder(lambda: ""), name="a")


def test_a_callable_without_a_hash_or_a_signature_is_called_all_the_same() -> None:
    class Unhashable:
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __call__(self, task: str) -> str:
            return task

    assert bind_run(Holder(Unhashable()), "goal", EXTRAS)() == "goal"
    assert bind_run(Holder(dict), "goal", EXTRAS)() == {"query": "goal"}
