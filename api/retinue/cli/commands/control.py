"""`retinue steer`, `retinue cancel` and `retinue interrupt`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say

if TYPE_CHECKING:
    from retinue.client import SubagentLifecycle
    from retinue.contract import SubagentCancelResult

Reason = Annotated[str | None, typer.Option(help="Why, for the event log.")]


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


def cancel(handle: Handle, reason: Reason = None, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Cancel a run and everything below it."""

    def stop(lifecycle: SubagentLifecycle, target: object) -> SubagentCancelResult:
        return lifecycle.cancel(target, reason)

    _stop(stop, handle, tenant, as_json)


def interrupt(handle: Handle, reason: Reason = None, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Stop a run at its next iteration boundary; what it has launched goes on."""

    def stop(lifecycle: SubagentLifecycle, target: object) -> SubagentCancelResult:
        return lifecycle.interrupt(target, reason)

    _stop(stop, handle, tenant, as_json)


def _stop(
    stop: Callable[[SubagentLifecycle, object], SubagentCancelResult],
    handle: str,
    tenant: str,
    as_json: bool,
) -> None:
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            answer = stop(lifecycle, find_handle(tenant, handle))
        if as_json:
            document(answer.to_dict())
        elif answer.accepted:
            say(str(answer.state))
        elif answer.unsupported:
            note("its agent cannot be interrupted while it works; cancel it")
        elif not answer.unknown_handle:
            note(f"it has ended already: {answer.state}")
    if answer.unknown_handle:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)
    if not answer.accepted:
        raise typer.Exit(ExitCode.PROBLEM)
