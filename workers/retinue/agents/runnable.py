"""Calling a foreign agent: any object with a `run` method, and reading what it returned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from retinue.contract import DeclarationError

from .tool_result import ToolResultError, result_text

# Where agent libraries keep the text of a finished run, in order of preference.
_REPLY_FIELDS: Final = ("final_response", "final_output", "output", "text", "content", "structured")


class Runnable(Protocol):
    """An object whose `run` takes the task as ``query``; sync or async."""

    @property
    def run(self) -> Callable[..., object]:
        """Runs the agent on one task."""
        ...


class NotRunnableError(DeclarationError, TypeError):
    """An agent object that cannot be called as ``run(query=...)``."""


def check_runnable(agent: object, *, name: str) -> None:
    """Refuse an object that would fail at its first delegation.

    Raises:
        NotRunnableError: it has no callable `run`, or one that does not take ``query`` by that name, or needs
            more than that.
    """
    run = getattr(agent, "run", None)
    if isinstance(agent, type) or not callable(run):
        raise NotRunnableError(
            f"agent {name!r}: {_kind(agent)} has no method run()",
            field="agent",
            mend="give an object with `async def run(self, query, **kwargs)`",
        )
    try:
        parameters = list(inspect.signature(run).parameters.values())
    except (TypeError, ValueError):
        return  # a builtin without signature: taken at its word
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "query"
    ]
    if needed or not ("query" in by_name or anything):
        raise NotRunnableError(
            f"agent {name!r}: run({', '.join(p.name for p in parameters)}) does not take query=... alone",
            field="agent",
            mend="name the first parameter query, and give the others defaults",
        )


def bind_run(agent: object, query: str, extras: Mapping[str, object]) -> Callable[[], object]:
    """The call of `run` without parameters; it may return an awaitable.

    Args:
        agent: an object that `check_runnable` accepted.
        query: the task.
        extras: further keywords; those that `run` does not take are left out.
    """
    run = cast("Runnable", agent).run
    try:
        parameters = inspect.signature(run).parameters
    except (TypeError, ValueError):
        parameters = {}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        extras = {name: value for name, value in extras.items() if name in parameters}
    return lambda: run(**{**extras, "query": query})


def runs_async(agent: object) -> bool:
    """Whether `run` is a coroutine function; others belong into an OS thread."""
    return inspect.iscoroutinefunction(getattr(agent, "run", None))


def reply_text(value: object) -> str:
    """The text of what `run` returned: text itself, a known field of a result object, else JSON.

    Raises:
        ToolResultError: there is no text in it and it has no JSON form.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return result_text(value)
    if not isinstance(value, Mapping):
        for field in _REPLY_FIELDS:
            found = getattr(value, field, None)
            if found is not None and not callable(found):
                return result_text(found)
    try:
        return result_text(value)
    except ToolResultError:
        raise ToolResultError(
            f"the agent returned a {type(value).__name__} without text: return text, or an object with "
            f"{' or '.join(_REPLY_FIELDS)}"
        ) from None


def _kind(agent: object) -> str:
    return f"the class {agent.__name__}" if isinstance(agent, type) else f"a {type(agent).__name__}"
