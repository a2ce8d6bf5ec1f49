"""`retinue keys create|list|revoke`: who may use the HTTP API."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from retinue.cli.options import Json
from retinue.cli.output import age, document, note, problem, reporting, say, table

if TYPE_CHECKING:
    from retinue.client.dispatch.connections import Connections
    from retinue.store.operations.api_keys import ApiKey

_DAY_S = 86_400

keys = typer.Typer(
    name="keys",
    help="API keys of the HTTP API: each for one tenant, and for what it is to do.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@keys.command("create")
def create(
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What its holder may do: run:read, run:write (reads too) or admin (everything). Repeatable.",
            show_default="run:write",
        ),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Whose runs it leads to.")] = "_",
    name: Annotated[str, typer.Option(help="What it is for.", show_default=False)] = "",
    expires_days: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="After which it opens nothing.", show_default="never"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an API key and print it. This is the only time: the store keeps no more than its digest."""
    with reporting(as_json):
        from retinue.store.operations.api_keys import create_key

        with closing(_connections()) as connections:
            issued = create_key(
                connections.store,
                tenant=tenant,
                scopes=scope or ["run:write"],
                name=name,
                expires_days=expires_days,
            )
    if as_json:
        document({"key": issued.text, **issued.key.to_dict()})
        return
    say(issued.text)
    note("keep it safe: it is not shown again")


@keys.command("list")
def list_all(as_json: Json = False) -> None:
    """List the API keys of all tenants, the youngest first; revoked and expired ones too."""
    with reporting(as_json):
        from retinue.store.operations.api_keys import list_keys

        with closing(_connections()) as connections:
            found = connections.store.run(list_keys())
    if as_json:
        document({"keys": [key.to_dict() for key in found]})
    elif not found:
        say("no key")
    else:
        now = time.time()
        rows = [
            (
                key.key_id,
                key.tenant,
                ",".join(sorted(key.scopes)),
                age(now - key.created_at),
                _state(key, now),
                key.name,
            )
            for key in found
        ]
        table(("ID", "TENANT", "SCOPES", "AGE", "STATE", "NAME"), rows)


@keys.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `retinue keys list` shows it.")],
    as_json: Json = False,
) -> None:
    """Revoke an API key: from the next request on it opens nothing, for good."""
    with reporting(as_json):
        from retinue.store.operations.api_keys import revoke_key

        with closing(_connections()) as connections:
            revoked_at = connections.store.run(revoke_key(key_id))
    if revoked_at is None:
        raise problem("no such key", mend="give an id that `retinue keys list` shows", as_json=as_json)
    if as_json:
        document({"key_id": key_id, "revoked_at": revoked_at})
    else:
        say(f"revoked {key_id}")


def _state(key: ApiKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "good"
    left_s = key.expires_at - now
    return "expired" if left_s <= 0 else f"good for {_lasts(left_s)}"


def _lasts(seconds: float) -> str:
    return f"{seconds / _DAY_S:.0f}d" if seconds >= 2 * _DAY_S else age(seconds)


def _connections() -> Connections:
    from retinue.broker.settings import load_settings
    from retinue.client.dispatch.connections import connections_for

    return connections_for(load_settings())
