"""Calling a foreign agent: any object with a `run` method, whatever its parameter for the task is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, cast

from retinue.contract import DeclarationError

_QUERY: Final = "query"


class Runnable(Protocol):
    """An object whose `run` takes the task as ``query`` or as its first argument; sync or async."""

    @property
    def run(self) -> Callable[..., object]:
        """Runs the agent on one task."""
        ...


class NotRunnableError(DeclarationError, TypeError):
    """An agent object that cannot be called as ``run(query)``."""


@dataclass(frozen=True, slots=True)
class _Intake:
    """How a `run` takes what it is given.

    Args:
        task: the parameter that takes the task. None = none does.
        by_position: the task is given as the first argument, and not by name.
        keywords: what else it takes by name. None = anything.
        lacks: parameters without a default that nobody fills.
    """

    task: str | None
    by_position: bool
    keywords: frozenset[str] | None
    lacks: tuple[str, ...]


def check_runnable(agent: object, *, name: str) -> None:
    """Refuse an object that would fail at its first delegation.

    Raises:
        NotRunnableError: it has no callable `run`, or one that takes no task, or needs more than that.
    """
    run = getattr(agent, "run", None)
    if isinstance(agent, type) or not callable(run):
        raise NotRunnableError(
            f"agent {name!r}: {_kind(agent)} has no method run()",
            field="agent",
            mend="give an object with `async def run(self, query, **kwargs)`",
        )
    intake = _intake(run)
    if intake.task is None or intake.lacks:
        wrong = f"needs {', '.join(intake.lacks)} besides the task" if intake.lacks else "takes no task"
        raise NotRunnableError(
            f"agent {name!r}: its run() {wrong}",
            field="agent",
            mend="let it take the task as query or as its first argument, and give all others defaults",
        )


def bind_run(agent: object, query: str, extras: Mapping[str, object]) -> Callable[[], object]:
    """The call of `run` without parameters; it may return an awaitable.

    Args:
        agent: an object that `check_runnable` accepted.
        query: the task.
        extras: further keywords; those that `run` does not take are left out.
    """
    run = cast("Runnable", agent).run
    intake = _intake(run)
    given = {
        name: value
        for name, value in extras.items()
        if name != intake.task and (intake.keywords is None or name in intake.keywords)
    }
    if intake.by_position:
        return lambda: run(query, **given)
    return lambda: run(**{**given, _QUERY: query})


def runs_async(agent: object) -> bool:
    """Whether `run` is a coroutine function; others belong into an OS thread."""
    return inspect.iscoroutinefunction(getattr(agent, "run", None))


def _intake(run: Callable[..., object]) -> _Intake:
    try:
        return _read_intake(run)
    except TypeError:  # a callable object that has no hash
        return _read_intake.__wrapped__(run)


@lru_cache(maxsize=1_024)
def _read_intake(run: Callable[..., object]) -> _Intake:
    """Read once for each agent, since it is asked for with each run."""
    try:
        parameters = list(inspect.signature(run).parameters.values())
    except (TypeError, ValueError):
        return _Intake(_QUERY, False, frozenset(), ())  # a builtin without signature: taken at its word
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    if _QUERY in named:
        task, by_position = _QUERY, False
    elif places:
        task, by_position = places[0], True
    else:
        task, by_position = (_QUERY, False) if anything else (rest, rest is not None)
    lacks = tuple(
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != task
    )
    return _Intake(task, by_position, None if anything else frozenset(named), lacks)


def _kind(agent: object) -> str:
    return f"the class {agent.__name__}" if isinstance(agent, type) else f"a {type(agent).__name__}"
