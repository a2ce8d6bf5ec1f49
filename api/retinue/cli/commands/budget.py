"""`retinue budget show` and `retinue budget raise`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from retinue.cli.exits import ExitCode
from retinue.cli.options import Handle, Json, Tenant
from retinue.cli.output import document, note, note_unknown, reporting, say, table

if TYPE_CHECKING:
    from retinue.contract import BudgetStatus

budget = typer.Typer(
    name="budget",
    help="Budgets: what a run and all below it may use.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@budget.command("show")
def show(handle: Handle, tenant: Tenant = "_", as_json: Json = False) -> None:
    """Show how a run's own budget stands."""
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator
        from retinue.contract import SubagentState

        with operator(tenant) as lifecycle:
            status = lifecycle.status(find_handle(tenant, handle))
        if as_json:
            document({"budget": None if status.budget is None else status.budget.to_dict()})
        elif status.budget is not None:
            _say(status.budget)
    if status.state is SubagentState.UNKNOWN:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)
    if status.budget is None:
        note("it has no budget of its own")
        raise typer.Exit(ExitCode.PROBLEM)


@budget.command("raise")
def raise_caps(
    handle: Handle,
    usd: Annotated[str | None, typer.Option(metavar="USD", help="Money, as in 2.50.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Input and output tokens together.")] = None,
    input_tokens: Annotated[int | None, typer.Option(help="Input tokens.")] = None,
    output_tokens: Annotated[int | None, typer.Option(help="Output tokens.")] = None,
    tool_calls: Annotated[int | None, typer.Option(help="Tool calls.")] = None,
    wall_seconds: Annotated[float | None, typer.Option(help="Seconds since the run's launch.")] = None,
    tenant: Tenant = "_",
    as_json: Json = False,
) -> None:
    """Raise caps of a run's budget to what they are to be in all; runs that waited for that go on."""
    asked: Mapping[str, object | None] = {
        "usd": usd,
        "tokens": tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "tool_calls": tool_calls,
        "wall_seconds": wall_seconds,
    }
    with reporting(as_json):
        from retinue.cli.facade import find_handle, operator

        with operator(tenant) as lifecycle:
            caps = {name: value for name, value in asked.items() if value is not None}
            answer = lifecycle.raise_budget(find_handle(tenant, handle), **caps)
        if as_json:
            document(answer.to_dict())
        elif answer.budget is not None:
            _say(answer.budget)
        elif answer.already_terminal:
            note("it has ended already, with all below it")
    if answer.unknown_handle:
        note_unknown()
        raise typer.Exit(ExitCode.UNKNOWN_HANDLE)
    if not answer.accepted:
        raise typer.Exit(ExitCode.PROBLEM)


def _say(status: BudgetStatus) -> None:
    rows = [
        (name, *(_amount(amount) for amount in cap.to_dict().values())) for name, cap in status.caps.items()
    ]
    table(("BUDGET", "LIMIT", "USED", "HELD", "LEFT"), rows)
    say(f"once it is spent: {status.on_spent}")


def _amount(value: float) -> str:
    return f"{value:,.6f}".rstrip("0").rstrip(".")
