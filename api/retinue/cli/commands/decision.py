"""`retinue pending`, `approve`, `deny` and `answer`: what runs ask of a human, and what the human says."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say

if TYPE_CHECKING:
    from retinue.contract import PendingRequest, SubagentDecision

Request = Annotated[
    str, typer.Argument(metavar="REQUEST", help="The request's id, as `retinue pending` prints it.")
]


def pending(handle: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Show what a run and those below it ask now."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.contract import SubagentState

        with operator(tenant) as lifecycle:
            target = find_handle(tenant, handle)
            known = lifecycle.reconnect(target).state is not SubagentState.UNKNOWN
            requests = lifecycle.pending(target)
        if as_json:
            document({"pending": [request.to_dict() for request in requests]})
        else:
            for request in requests:
                say(_line(request))
    if not known:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)


def approve(handle: Handle, request: Request, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Let a call be run, once and with exactly the arguments that were asked about."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            decision = lifecycle.approve(find_handle(tenant, handle), request)
    _end(decision, "approved", as_json=as_json)


def deny(
    handle: Handle,
    request: Request,
    reason: Annotated[str, typer.Option(help="Why, for the model and the event log.")] = "",
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Refuse a call; its model is told so and goes on."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            decision = lifecycle.deny(find_handle(tenant, handle), request, reason)
    _end(decision, "denied", as_json=as_json)


def answer(
    handle: Handle,
    request: Request,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads standard input.")],
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Give the result of a call that the caller is to answer."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        value = sys.stdin.read() if text == "-" else text
        with operator(tenant) as lifecycle:
            decision = lifecycle.answer(find_handle(tenant, handle), request, value)
    _end(decision, "answered", as_json=as_json)


def _line(request: PendingRequest) -> str:
    arguments = json.dumps(dict(request.arguments), ensure_ascii=False)
    line = f"{request.request_id}  {request.kind}  {request.agent}  {request.tool} {arguments}"
    return line if request.audience == "user" else f"{line}  (its parent is asked)"


def _end(decision: SubagentDecision, done: str, *, as_json: bool) -> NoReturn:
    if as_json:
        document(decision.to_dict())
    elif decision.accepted:
        say(done)
    else:
        note(f"not accepted: {decision.reason}")
    if decision.accepted:
        raise typer.Exit(ExitCode.OK)
    raise typer.Exit(ExitCode.UNKNOWN_HANDLE if decision.reason == "unknown" else ExitCode.PROBLEM)
