"""`retinue steer` and `retinue cancel`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say


def steer(
    handle: Handle,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message; - reads standard input.")],
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Send a message to a run; its model reads it at the next iteration boundary."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.contract import SteerState

        message = sys.stdin.read() if text == "-" else text
        with operator(tenant) as lifecycle:
            receipt = lifecycle.send_steer(find_handle(tenant, handle), message)
        if as_json:
            document(receipt.to_dict())
        elif receipt.state is SteerState.QUEUED:
            say(f"queued as {receipt.steer_id}")
        elif receipt.state is not SteerState.UNKNOWN:
            note(f"not queued: {receipt.state}")
    if receipt.state is SteerState.UNKNOWN:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)
    if receipt.state is not SteerState.QUEUED:
        raise typer.Exit(ExitCode.PROBLEM)


def cancel(
    handle: Handle,
    reason: Annotated[str | None, typer.Option(help="Why, for the event log.")] = None,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Cancel a run and everything below it."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            answer = lifecycle.cancel(find_handle(tenant, handle), reason)
        if as_json:
            document(answer.to_dict())
        elif answer.accepted:
            say(str(answer.state))
        elif not answer.unknown_handle:
            note(f"it has ended already: {answer.state}")
    if answer.unknown_handle:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)
    if not answer.accepted:
        raise typer.Exit(ExitCode.PROBLEM)
