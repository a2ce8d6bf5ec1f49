"""`retinue agents list` and `retinue agents show`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retinue.cli.options import Json
from retinue.cli.output import document, note, problem, reporting, say, table
from retinue.cli.value_options import key_values

if TYPE_CHECKING:
    from retinue.cli.agent_sources import ExplainedAgent

agents = typer.Typer(
    name="agents",
    help="Show what agents there are, and what a run of one gets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Live = Annotated[bool, typer.Option("--live", help="What workers advertise, also where modules are at hand.")]


@agents.command("list")
def list_agents(live: Live = False, as_json: Json = False) -> None:
    """List the agents of RETINUE_AGENTS, or those that workers advertise."""
    with reporting(as_json):
        from retinue.agents.registry.catalogue import advertise
        from retinue.broker.settings import load_settings
        from retinue.cli.agent_sources import advertised, declared

        settings = load_settings()
        registry = None if live else declared(settings)
        if registry is None:
            snapshot = advertised(settings)
            found: list[dict[str, Any]] = [
                {**_fields(entry), "workers": len(snapshot.capable_workers(name))}
                for name, entry in sorted(snapshot.agents.items())
            ]
        else:
            entries: Any = advertise(registry, settings)["agents"]
            found = [
                {**entry, "place": registry.agents[entry["name"]].place}
                for entry in entries
                if entry["name"] in registry.agents
            ]
        if as_json:
            document({"source": "workers" if registry is None else "modules", "agents": found})
        else:
            _print_list(found)


@agents.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An agent, or the path of an Agent Spec file.")],
    agent: Annotated[str | None, typer.Option(help="Of the file; None = its outermost.")] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show it as this agent's child; None = as a root.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As if the launch asked for it.")] = None,
    provider: Annotated[str | None, typer.Option(help="As if the launch asked for it.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="KEY=VALUE", help="For its prompt. Repeatable.")
    ] = None,
    toolset: Annotated[list[str] | None, typer.Option(help="As if only this were granted.")] = None,
    live: Live = False,
    as_json: Json = False,
) -> None:
    """Show an agent's effective spec, and where each value comes from.

    Without the agents' modules only what workers advertise is known. Credentials are never shown.
    """
    with reporting(as_json):
        from retinue.agents.effective.explain import Wishes
        from retinue.broker.settings import load_settings
        from retinue.cli.agent_sources import advertised, explained

        settings = load_settings()
        wishes = Wishes(
            model=model,
            provider=provider,
            inputs=key_values("--input", inputs) if inputs else None,
            allowed_toolsets=tuple(toolset) if toolset else None,
        )
        found = None if live else explained(settings, name, agent=agent, parent=parent, wishes=wishes)
        if found is not None:
            _print_spec(found, as_json=as_json)
            return
        entry = advertised(settings).agents.get(name)
        if entry is None:
            mend = "see `retinue agents list`, or set RETINUE_AGENTS to the module that has it"
            raise problem(f"no worker has advertised an agent {name!r}", mend=mend, as_json=as_json)
        if as_json:
            document({"source": "workers", "agent": _fields(entry)})
            return
        for key, value in _fields(entry).items():
            if value not in (None, "", []):
                say(f"{key:<16}{_plain(value)}  [advertised]")


def _fields(entry: Any) -> dict[str, Any]:
    names = ("name", "description", "model", "provider", "queue", "toolsets", "sub_agents", "inputs")
    return {
        name: list(value) if isinstance(value := getattr(entry, name), tuple) else value  # pyright: ignore[reportUnknownArgumentType]
        for name in names
    }


def _print_list(found: Sequence[dict[str, Any]]) -> None:
    if not found:
        note("no agents: set RETINUE_AGENTS, or start a worker")
        return
    rows = [
        (
            entry["name"],
            entry["model"] or "-",
            entry["provider"] or "-",
            entry["queue"] or "-",
            ", ".join(entry["toolsets"]) or "-",
            ", ".join(entry["sub_agents"]) or "-",
            entry.get("place") or f"{entry['workers']} workers",
        )
        for entry in found
    ]
    table(("AGENT", "MODEL", "PROVIDER", "QUEUE", "TOOLSETS", "SUB-AGENTS", "WHERE"), rows)


def _print_spec(found: ExplainedAgent, *, as_json: bool) -> None:
    if as_json:
        spec = [value.to_dict() for value in found.values]
        unknown, notes = list(found.unknown_tools), list(found.notes)
        document({"source": "modules", "spec": spec, "unknown_tools": unknown, "notes": notes})
        return
    for item in found.values:
        if item.name == "prompt":
            lines = str(item.value).splitlines() if item.value else ["none"]
            say(f"prompt  [{item.origin}]\n" + "\n".join(f"    {line}" for line in lines))
        else:
            say(f"{item.name:<16}{_plain(item.value)}  [{item.origin}]")
    for text in found.notes:
        say(f"{'note':<16}{text}")
    if found.unknown_tools:
        note(f"not registered in this process, so not checked: {', '.join(found.unknown_tools)}")


def _plain(value: Any) -> str:
    if value in (None, []):
        return "none"
    if isinstance(value, list):
        return ", ".join(_item(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value if isinstance(value, str) else json.dumps(value)


def _item(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    more = item.get("toolset") or item.get("description")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{item['name']} ({more})" if more else str(item["name"])  # pyright: ignore[reportUnknownArgumentType]
