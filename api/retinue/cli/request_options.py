"""The options that make up a launch request, said once for every command that launches."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from retinue.cli.agent_sources import spec_file
from retinue.cli.value_options import json_file, key_values

DEFAULT_AGENT = "-"
"""In the place of an agent's name: the settings' default agent."""


def request_fields(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Its name, or an Agent Spec file (.yaml, .yml, .json); - = the default agent.",
        ),
    ],
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="What it shall do; - reads standard input.")],
    context: Annotated[str | None, typer.Option(help="What it should know besides.")] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="KEY=VALUE", help="A value for its prompt's placeholders. Repeatable."
        ),
    ] = None,
    output_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The result is an object that fits this JSON schema."),
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(help="Your own id of the work: one run per session and id.")
    ] = None,
    on_duplicate: Annotated[
        str, typer.Option(metavar="raise|return", help="What to do when the correlation id is taken.")
    ] = "raise",
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="The run's deadline, from now on.")
    ] = None,
    max_iterations: Annotated[int | None, typer.Option(help="Model requests it may make.")] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CAP=VALUE",
            help="What it and all below it may use: usd=2.50, tokens=9000, on_spent=stop. Repeatable.",
        ),
    ] = None,
    toolset: Annotated[
        list[str] | None, typer.Option(help="Grant this toolset only. Repeatable.", show_default=False)
    ] = None,
    no_tools: Annotated[bool, typer.Option("--no-tools", help="Grant no toolset.")] = False,
    block_tool: Annotated[list[str] | None, typer.Option(help="Forbid this tool. Repeatable.")] = None,
    role: Annotated[str, typer.Option(metavar="leaf|orchestrator", help="Whom it may delegate to.")] = "leaf",
    model: Annotated[str | None, typer.Option(help="In place of the agent's model.")] = None,
    provider: Annotated[str | None, typer.Option(help="In place of the agent's provider.")] = None,
    working_directory: Annotated[
        str | None, typer.Option(help="Relative to the workers' workspace_root.")
    ] = None,
    priority: Annotated[
        str, typer.Option(metavar="high|normal|low", help="Its place in the queue.")
    ] = "normal",
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Comes back with the result. Repeatable."),
    ] = None,
) -> dict[str, object]:
    """The fields of a launch request; checked where it is launched."""
    if no_tools and toolset:
        raise typer.BadParameter("--no-tools and --toolset exclude each other")
    fields: dict[str, object] = {
        "agent": None if agent == DEFAULT_AGENT else spec_file(agent) or agent,
        "goal": sys.stdin.read() if goal == "-" else goal,
        "context": context,
        "inputs": key_values("--input", inputs) if inputs else None,
        "output_schema": None if output_schema is None else json_file("--output-schema", output_schema),
        "correlation_id": correlation_id,
        "on_duplicate": on_duplicate,
        "timeout_seconds": timeout,
        "max_iterations": max_iterations,
        "budget": key_values("--budget", budget) if budget else None,
        "allowed_toolsets": () if no_tools else tuple(toolset) if toolset else None,
        "blocked_tools": tuple(block_tool or ()),
        "role": role,
        "model": model,
        "provider": provider,
        "working_directory": working_directory,
        "priority": priority,
        "metadata": key_values("--metadata", metadata or ()),
    }
    return {name: value for name, value in fields.items() if value is not None}


def with_request_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `request_fields`; it gets their outcome as its first argument."""
    own = inspect.signature(command)
    asked = inspect.signature(request_fields)

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        wanted = {name: values.pop(name) for name in asked.parameters}
        command(request_fields(**wanted), **values)

    parameters = [*asked.parameters.values(), *list(own.parameters.values())[1:]]
    hints = {
        **get_type_hints(request_fields, include_extras=True),
        **get_type_hints(command, include_extras=True),
    }
    wrapper.__signature__ = inspect.Signature(  # pyright: ignore[reportAttributeAccessIssue]
        [each.replace(kind=each.KEYWORD_ONLY, annotation=hints[each.name]) for each in parameters]
    )
    wrapper.__annotations__ = {each.name: hints[each.name] for each in parameters}
    del wrapper.__wrapped__  # pyright: ignore[reportAttributeAccessIssue] - typer would look through it
    return wrapper
