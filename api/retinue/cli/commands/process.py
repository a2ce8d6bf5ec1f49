"""`retinue up`, `worker`, `flower`, `demo` and `version`: the commands that run something here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retinue.cli.options import Modules
from retinue.cli.output import problem, reporting, say

PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True}
"""For commands that hand what they do not know to another program."""


def up(
    modules: Modules = None,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0 = the server alone.")] = 1,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", min=1, help="Runs of one process at a time.")
    ] = None,
    loglevel: Annotated[str, typer.Option("--loglevel", "-l", help="Of the workers and the web.")] = "INFO",
    web: Annotated[bool, typer.Option("--web/--no-web", help="The HTTP API and its page.")] = True,
    web_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="0 = any free one; None = RETINUE_HTTP__PORT or 8580."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory of the server's data; None = your state directory.")
    ] = None,
) -> None:
    """Start an embedded Valkey, workers and the HTTP API, until Ctrl-C.

    What other shells need stands on standard output, the rest on standard error. If a store is set, it is
    used instead of an embedded one.
    """
    with reporting():
        from retinue.cli.up.up import run_up

        code = run_up(
            modules or (),
            workers=workers,
            concurrency=concurrency,
            loglevel=loglevel,
            web=web,
            web_port=web_port,
            directory=data,
        )
    raise typer.Exit(code)


def worker(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULES | CELERY OPTIONS]...", help="Modules with agents; none = RETINUE_AGENTS."
        ),
    ] = None,
) -> None:
    """Start a worker, with any of Celery's options.

    The same as `celery -A retinue.worker worker`. The usual options: -c N runs at a time, -Q QUEUES to serve,
    -n NAME, -l LEVEL of the log.
    """
    with reporting():
        from retinue.broker.settings import load_settings
        from retinue.cli.commands.worker import run_worker

        load_settings().required_store_url  # noqa: B018 - raises here what Celery would show as a traceback
        run_worker(arguments or ())


def flower(
    options: Annotated[list[str] | None, typer.Argument(metavar="[FLOWER OPTIONS]...")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="None = RETINUE_FLOWER_PORT or 5555.")
    ] = None,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    control: Annotated[
        bool, typer.Option("--control", help="Let its pages revoke tasks and change workers.")
    ] = False,
) -> None:
    """Start Flower, the web page of workers and tasks.

    It changes nothing without --control. It asks for the log-in of RETINUE_FLOWER_USER and
    RETINUE_FLOWER_PASSWORD, or else for one that is made at each start and printed once. Arguments and
    results of other applications' tasks are not shown.
    """
    with reporting():
        from retinue.broker.settings import load_settings
        from retinue.cli.commands.flower import run_flower

        run_flower(options or (), settings=load_settings(), port=port, address=address, control=control)


def demo(
    spec: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The team's Agent Spec file; None = the one in examples/."),
    ] = None,
    checkout: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="What to review; None = the project of the example."),
    ] = None,
) -> None:
    """Let a team of agents review this checkout.

    It starts a store and two worker processes, runs one tree over both, and ends them. The model is a
    scripted one, which needs no network; with OPENAI_API_KEY set it is a real one.
    """
    with reporting():
        from retinue.cli.demo.example import ExampleMissingError, find_example
        from retinue.cli.demo.show import run_demo

        try:
            example = find_example(spec)
        except ExampleMissingError as error:
            raise problem(str(error), mend=error.mend) from None
        code = run_demo(example, checkout)
    raise typer.Exit(code)


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    say(f"retinue {installed('retinue')}")
