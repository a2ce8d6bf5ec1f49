"""The command line: which commands there are, and what becomes of an error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from retinue.cli.commands.agents import agents
from retinue.cli.commands.budget import budget
from retinue.cli.commands.continue_run import continue_run
from retinue.cli.commands.control import cancel, interrupt, steer
from retinue.cli.commands.decision import answer, approve, deny, pending
from retinue.cli.commands.dlq import dlq
from retinue.cli.commands.doctor import doctor
from retinue.cli.commands.keys import keys
from retinue.cli.commands.launch import launch
from retinue.cli.commands.launch import run as run_command
from retinue.cli.commands.logs import logs
from retinue.cli.commands.process import PASS_ON, demo, flower, up, version, worker
from retinue.cli.commands.ps import ps
from retinue.cli.commands.purge import purge
from retinue.cli.commands.read import events, result, status, wait
from retinue.cli.commands.web import web
from retinue.cli.commands.workers import workers
from retinue.cli.exits import ExitCode
from retinue.cli.output import document

app = typer.Typer(
    name="retinue",
    help="LLM subagents on Celery workers; Redis or Valkey holds the truth.",
    epilog="Exit codes: 0 done or SUCCEEDED, 1 refused or a problem, 2 wrong usage, 3 FAILED, 4 CANCELLED, "
    "5 INTERRUPTED, 6 not ended yet, 7 unknown handle, 8 store unavailable.",
    no_args_is_help=True,
    add_completion=False,
    # Rich takes longer to import than everything else here.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (
    up,
    web,
    demo,
    launch,
    run_command,
    ps,
    status,
    wait,
    result,
    events,
    logs,
    steer,
    pending,
    approve,
    deny,
    answer,
    cancel,
    interrupt,
    purge,
    doctor,
    version,
):
    app.command(command.__name__)(command)
app.command("continue")(continue_run)
app.add_typer(agents)
app.add_typer(budget)
app.add_typer(dlq)
app.add_typer(keys)
app.add_typer(workers)
for command in (worker, flower):
    app.command(command.__name__, context_settings=PASS_ON)(command)


def run(arguments: Sequence[str] | None = None) -> None:
    """Runs one command line and exits with an `ExitCode`.

    Args:
        arguments: without the program's name; None = those of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--json" not in given:
        app(args=given, prog_name="retinue")
        return
    try:
        code: Any = app(args=given, prog_name="retinue", standalone_mode=False)
    except Exception as error:
        # typer keeps its usage errors to itself; this is what they have in common.
        if not hasattr(error, "format_message"):
            raise
        text = error.format_message()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        document({"error": {"type": "UsageError", "message": str(text)}})
        code = ExitCode.USAGE
    sys.exit(int(code or 0))
