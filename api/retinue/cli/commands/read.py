"""`retinue status`, `wait`, `result` and `events`: what one run is doing, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from retinue.cli.exits import ExitCode, exit_of_state
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say

if TYPE_CHECKING:
    from retinue.contract import SubagentState


def status(handle: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Show how a run stands now."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.contract import SubagentState

        with operator(tenant) as lifecycle:
            found = lifecycle.status(find_handle(tenant, handle))
        if as_json:
            document(found.to_dict())
        else:
            for name, value in found.to_dict().items():
                if name != "handle" and value not in (None, "", {}):
                    say(f"{name}: {_plain(value)}")
    if found.state is SubagentState.UNKNOWN:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)


def wait(
    handle: Handle,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Longest wait; 0 = look once. None = for ever.")
    ] = None,
    until: Annotated[
        str, typer.Option(metavar="end|asked", help="asked = or until it, or a run below, asks a human.")
    ] = "end",
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Wait for a run's end; the exit code tells its state."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.cli.views.no_worker_hint import WAIT_S, NoWorkerHint
        from retinue.client.clock import WaitClock

        clock = WaitClock(timeout, field="--timeout")
        with operator(tenant) as lifecycle:
            target = find_handle(tenant, handle)
            hint = NoWorkerHint(lifecycle, target)
            ended = lifecycle.wait(target, clock.pause(WAIT_S), until=until)
            if ended.timed_out:
                if line := hint.line(is_last=True):
                    note(line)
                if not clock.is_over:
                    ended = lifecycle.wait(target, clock.left_s, until=until)
        if as_json:
            document(ended.to_dict())
        else:
            say(str(ended.state))
            if not ended.completed and not ended.timed_out:
                note("a human is asked, see `retinue pending`; or its budget is spent, see `retinue budget`")
    _end(ended.state)


def result(
    handle: Handle,
    full: Annotated[bool, typer.Option("--full", help="The whole text, where the result's is cut.")] = False,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Print what a run came to; the exit code tells its state."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.cli.views.results import print_result

        with operator(tenant) as lifecycle:
            target = find_handle(tenant, handle)
            found = lifecycle.result(target)
            text = lifecycle.full_text(target) if full and found.truncated else None
        if as_json:
            document(found.to_dict() | ({} if text is None else {"full_text": text}))
        elif text is not None:
            say(text)
        else:
            print_result(found, as_json=False)
    _end(found.terminal_state)


def events(
    handle: Handle,
    after: Annotated[int, typer.Option(metavar="N", help="Leave out the events up to this number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    tenant: Tenant = "_",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; with --follow, one for each event.")
    ] = False,
) -> None:
    """Print the event log of a run's tree."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.cli.views.event_lines import event_line
        from retinue.contract import SubagentState

        with operator(tenant) as lifecycle:
            target = find_handle(tenant, handle)
            known = lifecycle.reconnect(target).state is not SubagentState.UNKNOWN
            log = lifecycle.events(target, after=after, follow=follow)
            if as_json and not follow:
                document({"events": [event.to_dict() for event in log]})
            else:
                for event in log:
                    if as_json:
                        document(event.to_dict())
                    else:
                        say(event_line(event))
    if not known:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)


def _end(state: SubagentState) -> NoReturn:
    code = exit_of_state(state)
    if code == ExitCode.UNKNOWN_HANDLE:
        note_unknown()
    raise typer.Exit(code)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        parts = (f"{name}={_plain(item)}" for name, item in value.items() if item not in (None, {}))  # pyright: ignore[reportUnknownVariableType]
        return " ".join(parts)
    return str(value)
