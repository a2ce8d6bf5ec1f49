"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from retinue.cli.handle_argument import HANDLE_HELP

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, also for an error.")]
Tenant = Annotated[str, typer.Option(help="Whose runs.", show_default=False)]
Handle = Annotated[str, typer.Argument(metavar="HANDLE", help=HANDLE_HELP, show_default=False)]
Modules = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODULES]...", help="Modules with agents; none = RETINUE_AGENTS."),
]
