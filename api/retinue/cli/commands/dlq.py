"""`retinue dlq list|show|replay|discard`: runs that no worker could go on with."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.handle_argument import read_handle
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import age, document, note, reporting, say, table

dlq = typer.Typer(
    name="dlq",
    help="Dead letters: runs that were given up because their processes were lost again and again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dlq.command("list")
def list_letters(
    limit: Annotated[int, typer.Option(metavar="N", help="Longest list.")] = 100,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """List the dead letters of a tenant, newest first. They are kept for 7 days."""
    with reporting(as_json):
        from retinue.cli.facade import operator

        with operator(tenant) as lifecycle:
            letters = lifecycle.dead_letters(limit=limit)
    if as_json:
        document({"dead_letters": [letter.to_dict() for letter in letters]})
    elif not letters:
        say("no dead letter")
    else:
        now = time.time()
        rows = [
            (each.run_id, each.session_id, each.agent, each.error_classification, age(now - each.ended_at))
            for each in letters
        ]
        table(("RUN", "SESSION", "AGENT", "WHY", "SINCE"), rows)


@dlq.command("show")
def show(run: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Show a dead letter, with the request that it stands for."""
    with reporting(as_json):
        from retinue.cli.facade import operator

        with operator(tenant) as lifecycle:
            letter = lifecycle.dead_letter(read_handle(run))
    if letter is None:
        raise _unknown()
    if as_json:
        document(letter.to_dict())
        return
    for name, value in letter.to_dict().items():
        say(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")


@dlq.command("replay")
def replay(run: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Start a dead letter's request again as a new run, take the letter away, and print the new handle."""
    with reporting(as_json):
        from retinue.cli.facade import operator

        with operator(tenant) as lifecycle:
            handle = lifecycle.replay(read_handle(run)).to_dict()
    if as_json:
        document(handle)
    else:
        say(json.dumps(handle))


@dlq.command("discard")
def discard(run: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Throw a dead letter away."""
    with reporting(as_json):
        from retinue.cli.facade import operator

        with operator(tenant) as lifecycle:
            gone = lifecycle.discard(read_handle(run))
    if as_json:
        document({"discarded": gone})
    elif gone:
        say("discarded")
    if not gone:
        raise _unknown()


def _unknown() -> typer.Exit:
    note("no such dead letter: replayed, discarded, expired, or of another tenant")
    return typer.Exit(ExitCode.UNKNOWN_HANDLE)
