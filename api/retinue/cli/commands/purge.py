"""`retinue purge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.handle_argument import HANDLE_HELP
from retinue.cli.options import Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say

if TYPE_CHECKING:
    from retinue.contract import SubagentPurgeResult


def purge(
    handles: Annotated[list[str], typer.Argument(metavar="HANDLE...", help=HANDLE_HELP, show_default=False)],
    keep_conversation: Annotated[
        bool, typer.Option("--keep-conversation", help="Keep what `retinue continue` needs to go on.")
    ] = False,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Remove ended runs, all below them, and their conversations, at once and for good."""
    answers: list[SubagentPurgeResult] = []
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            targets = [find_handle(tenant, handle) for handle in handles]
            for target in targets:
                answer = lifecycle.purge(target, conversation=not keep_conversation)
                answers.append(answer)
                if not as_json:
                    _tell(answer)
    if as_json:
        document({"purges": [answer.to_dict() for answer in answers]})
    if any(answer.live_run_id for answer in answers):
        raise typer.Exit(ExitCode.PROBLEM)
    if any(answer.unknown_handle for answer in answers):
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)


def _tell(answer: SubagentPurgeResult) -> None:
    if answer.purged:
        say(f"purged, {answer.runs} {'run' if answer.runs == 1 else 'runs'}")
    elif answer.unknown_handle:
        note_unknown()
    else:
        note(f"not purged: {answer.live_run_id} has not ended; cancel it, or wait for it")
