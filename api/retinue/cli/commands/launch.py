"""`retinue launch` and `retinue run`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from retinue.cli.exits import exit_of_state
from retinue.cli.options import Json, Tenant
from retinue.cli.output import document, note, reporting, say
from retinue.cli.request_options import with_request_options

Session = Annotated[str, typer.Option("--session", "-s", help="The session that owns the run.")]
DEFAULT_SESSION = "cli"


@with_request_options
def launch(
    request: dict[str, object],
    session: Session = DEFAULT_SESSION,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Launch a run and print its handle.

    The handle is one line of JSON: keep it to watch, steer or cancel the run.
    """
    with reporting(as_json):
        from retinue.client import SubagentLifecycle

        with SubagentLifecycle(session, tenant=tenant) as lifecycle:
            handle = lifecycle.launch(request).to_dict()
        if as_json:
            document(handle)
        else:
            say(json.dumps(handle))


@with_request_options
def run(
    request: dict[str, object],
    session: Session = DEFAULT_SESSION,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Longest wait; the run goes on after it.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but the result.")] = False,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Launch a run, watch it, and print its result.

    Its tree is shown while it works; the exit code tells how it ended. Ctrl-C ends the watching, not the run.
    """
    with reporting(as_json):
        from retinue.cli.views.no_worker_hint import NoWorkerHint
        from retinue.cli.views.results import print_result
        from retinue.cli.views.watching import Watch, display_on
        from retinue.client import SubagentLifecycle
        from retinue.client.clock import WaitClock

        # First: a wait that makes no sense launches nothing.
        clock = WaitClock(wait, field="--wait")
        with SubagentLifecycle(session, tenant=tenant) as lifecycle:
            handle = lifecycle.launch(request)
            shown = None if quiet or as_json else display_on(sys.stderr)
            hint = None if quiet else NoWorkerHint(lifecycle, handle)
            try:
                Watch(lifecycle, handle, shown, hint).until_ended(clock)
            except KeyboardInterrupt:
                note(f"the run goes on: retinue wait {handle.subagent_id}, or retinue cancel")
            result = lifecycle.result(handle)
        print_result(result, as_json=as_json)
        raise typer.Exit(exit_of_state(result.terminal_state))
