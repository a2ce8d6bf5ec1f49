"""`@tool`: a plain function that agents may call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from pydantic import JsonValue

from retinue.contract.errors import DeclarationError
from retinue.contract.limits import NAME_MAX_CHARS

from .api_name import api_name
from .arguments import check_arguments
from .schema import ArgumentSchema
from .tool_context import ToolContext

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
F_P = ParamSpec("F_P")
F_R = TypeVar("F_R")

RESERVED_TOOL_NAMES: Final = frozenset(
    {
        "run_agent",
        "list_agents",
        "send_message",
        "handoff_conversation",
        "submit_result",
        "check_agent",
        "wait_agents",
        "steer_agent",
        "cancel_agent",
        "answer_agent",
        "ask_user",
        "ask_parent",
    }
)
"""Names of the built-in tools; no tool of an application may take them."""


@dataclass(frozen=True, eq=False, slots=True)
class Tool(Generic[P, R_co]):
    """A function that agents may call; made by `tool`, and still callable as the function that it is.

    Args:
        name: unique within a worker; may hold spaces.
        description: what the model reads.
        toolset: the group under which launches grant it.
        function: what runs.
        schema: its parameters.
        read_only: it changes nothing, so a call lost in a crash is simply run again.
        idempotent: running it again with the same idempotency key does no harm, so a lost call is run again.
        is_async: the function is a coroutine function; others run in an OS thread.
        requires_confirmation: a call waits until a human approves it.
        redact: parameters that are not shown to whoever approves a call.
    """

    name: str
    description: str
    toolset: str
    function: Callable[P, R_co]
    schema: ArgumentSchema
    read_only: bool = False
    idempotent: bool = False
    is_async: bool = False
    requires_confirmation: bool = False
    redact: tuple[str, ...] = ()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, toolset={self.toolset!r})"

    @property
    def api_name(self) -> str:
        """The name that the model sees."""
        return api_name(self.name)

    @property
    def parameters(self) -> Mapping[str, JsonValue]:
        """JSON schema of the arguments."""
        return self.schema.parameters

    @property
    def runs_again(self) -> bool:
        """Whether a call whose outcome a crash left open is run again; else the model is told so."""
        return self.read_only or self.idempotent

    @property
    def place(self) -> str:
        """Where the function is defined, for messages: ``module.name (file:line)``."""
        function = inspect.unwrap(self.function)
        code = getattr(function, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        return f"{function.__module__}.{getattr(function, '__qualname__', self.name)}{where}"

    def check(self, arguments: str | bytes | Mapping[str, object] | None) -> dict[str, object]:
        """The arguments of a model's call, converted to the function's types.

        Raises:
            ToolArgumentError: with a text that tells the model what to send instead.
        """
        return check_arguments(self.schema, arguments)

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call as a function without parameters; a coroutine function's returns an awaitable.

        Args:
            arguments: as `check` returned them.
            context: handed to the function where it asks for it.
        """
        values = dict(arguments)
        if self.schema.context is not None:
            values[self.schema.context] = context
        bound = self.schema.signature.bind_partial()
        bound.arguments.update({n: values[n] for n in self.schema.signature.parameters if n in values})
        if any(p.kind is p.POSITIONAL_ONLY for p in self.schema.signature.parameters.values()):
            bound.apply_defaults()  # a gap before a positional argument would end the list there
        call: Callable[..., object] = self.function
        return functools.partial(call, *bound.args, **bound.kwargs)


AnyTool = Tool[..., object]
"""A tool, whatever its function takes and returns."""


@overload
def tool(function: Callable[F_P, F_R], /) -> Tool[F_P, F_R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    toolset: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    requires_confirmation: bool = False,
    redact: Iterable[str] = (),
) -> Callable[[Callable[F_P, F_R]], Tool[F_P, F_R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    toolset: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    requires_confirmation: bool = False,
    redact: Iterable[str] = (),
) -> Any:
    """Make a function callable by agents; its type hints become the schema, its docstring the description.

    Args:
        function: a plain function, sync or async. A parameter annotated `ToolContext`, or named ``ctx``
            without annotation, is filled by the worker and not shown to the model.
        name: None = the function's name. May hold spaces.
        toolset: the group under which launches grant it. None = the tool's name.
        description: None = the docstring up to its first section.
        read_only: the function changes nothing: a call lost in a crash is run again.
        idempotent: the function can be repeated under the same `ToolContext.idempotency_key`.
        requires_confirmation: each call waits, away from the worker, until a human approves it.
        redact: parameters whose values requests and events do not show, such as a password; the approval is
            for these values all the same. Models and threads hold them as any other.

    Raises:
        DeclarationError: the function or an argument cannot be used; names it.
    """

    def declare(target: Callable[..., Any]) -> Tool[..., Any]:
        return _declare(
            target,
            name,
            toolset,
            description,
            read_only=read_only,
            idempotent=idempotent,
            requires_confirmation=requires_confirmation,
            redact=redact,
        )

    return declare if function is None else declare(function)


def _declare(
    function: Callable[..., Any],
    name: str | None,
    toolset: str | None,
    description: str | None,
    *,
    read_only: bool,
    idempotent: bool,
    requires_confirmation: bool,
    redact: Iterable[str],
) -> Tool[..., Any]:
    if not inspect.isroutine(function):
        raise DeclarationError(
            f"{type(function).__name__} is not a plain function", field="tool", mend="decorate a def"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DeclarationError(
            f"tool {function.__name__!r} yields",
            field="tool",
            mend="return the whole result, a list for example",
        )
    own = _name(function.__name__ if name is None else name, "name")
    if api_name(own) in RESERVED_TOOL_NAMES:
        raise DeclarationError(
            f"{own!r} is the name of a built-in tool",
            field="name",
            limit=f"not {', '.join(sorted(RESERVED_TOOL_NAMES))}",
            mend="give it another name with @tool(name=...)",
        )
    schema = ArgumentSchema.of(function, tool=own)
    return Tool(
        name=own,
        description=(description or schema.description or own.replace("_", " ")).strip(),
        toolset=own if toolset is None else _name(toolset, "toolset"),
        function=function,
        schema=schema,
        read_only=read_only,
        idempotent=idempotent,
        is_async=inspect.iscoroutinefunction(function),
        requires_confirmation=requires_confirmation,
        redact=_parameters(redact, schema, tool=own),
    )


def _parameters(names: Iterable[str], schema: ArgumentSchema, *, tool: str) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in found if name not in schema.names]
    if unknown:
        raise DeclarationError(
            f"tool {tool!r} has no parameter {', '.join(map(repr, unknown))}",
            field="redact",
            limit=", ".join(schema.names) or "it takes none",
            mend="name parameters that a model fills",
        )
    return found


def _name(value: object, field: str) -> str:
    limit = f"1 to {NAME_MAX_CHARS} printable characters, no blanks at the ends"
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_MAX_CHARS:
        raise DeclarationError(
            f"{value!r:.60} is no name", field=field, limit=limit, mend="give a short name"
        )
    if value != value.strip() or not value.isprintable():
        raise DeclarationError(
            f"{value!r:.60} is no name", field=field, limit=limit, mend="use printable text"
        )
    return value


def as_tools(items: Iterable[object], *, owner: str) -> tuple[AnyTool | str, ...]:
    """An agent's tools: `Tool` objects and names of registered tools or toolsets; functions become tools.

    Raises:
        DeclarationError: an item is none of these, or names the same tool twice.
    """
    if isinstance(items, str | bytes):
        raise DeclarationError(f"tools of {owner} is text", field="tools", mend="give a list of tools")
    result: list[AnyTool | str] = []
    for number, item in enumerate(items):
        if isinstance(item, Tool | str):
            result.append(item)
        elif inspect.isroutine(item):
            result.append(tool(item))
        else:
            raise DeclarationError(
                f"tools[{number}] of {owner} is a {type(item).__name__}",
                field="tools",
                limit="Tool, function, or name of a registered tool",
                mend="decorate a function with @tool",
            )
    names = [item if isinstance(item, str) else item.name for item in result]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DeclarationError(
            f"tool {twice!r} of {owner} stands there twice", field="tools", mend="remove one"
        )
    return tuple(result)
