"""`retinue continue`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, reporting, say
from retinue.cli.value_options import key_values


def continue_run(
    handle: Handle,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the user says; - reads standard input.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="KEY=VALUE", help="An input in place of all of the first run's."),
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Unique within the session while the run is kept.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Deadline of the run; default: the first run's.")
    ] = None,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Say the next thing in a conversation and print the new run's handle.

    The conversation must have no live run; whoever owns it answers, in the session that it belongs to.
    """
    with reporting(as_json):
        from retinue.cli.facade import find_handle
        from retinue.client import SubagentLifecycle
        from retinue.client.steps.continuing import unknown_conversation
        from retinue.contract import coerce_handle

        found = coerce_handle(find_handle(tenant, handle))
        if found is None:
            raise unknown_conversation()
        with SubagentLifecycle(found.parent_session_id, tenant=tenant) as lifecycle:
            following = lifecycle.continue_run(
                found,
                sys.stdin.read() if text == "-" else text,
                inputs=key_values("--input", inputs) if inputs else None,
                correlation_id=correlation_id,
                timeout_seconds=timeout,
            ).to_dict()
        if as_json:
            document(following)
        else:
            say(json.dumps(following))
