"""Where the commands find agents: in the modules of this process, in a file, or in what workers advertise."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.cli.output import note

if TYPE_CHECKING:
    from retinue.agents.effective.explain import Explained, Wishes
    from retinue.agents.registry.registry import Registry
    from retinue.broker.catalogue import CatalogueSnapshot
    from retinue.broker.settings import Settings

SPEC_SUFFIXES = (".yaml", ".yml", ".json")


def spec_file(argument: str) -> Path | None:
    """The Agent Spec file that an argument in the place of an agent's name means; None = it is a name."""
    return Path(argument) if argument.endswith(SPEC_SUFFIXES) else None


def declared(settings: Settings) -> Registry | None:
    """What the modules of the setting `agents` declare; None = there are none, or they cannot be imported."""
    if not settings.agents:
        return None
    from retinue.agents.registry.registry import Registry
    from retinue.contract import RetinueError

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        # What a module prints while it is imported must not get into the answer.
        with contextlib.redirect_stdout(sys.stderr):
            return Registry.load(settings.agents)
    except Exception as error:  # a user's module may raise anything
        reason = str(error) if isinstance(error, RetinueError) else type(error).__name__
        note(f"{', '.join(settings.agents)} cannot be imported here ({reason})")
        return None


def advertised(settings: Settings) -> CatalogueSnapshot:
    """What workers say that they can run.

    Raises:
        SettingsError, SubagentLifecycleError: There is no store, or it does not answer.
    """
    from retinue.client.dispatch.connections import connections_for

    return connections_for(settings).catalogue.snapshot(fresh=True)


@dataclass(frozen=True, slots=True)
class ExplainedAgent:
    """An agent's effective spec, value by value.

    Args:
        values: With their origins.
        unknown_tools: Those of a file that no module of this process registers.
        notes: What is doubtful about a file, one line each.
    """

    values: tuple[Explained, ...]
    unknown_tools: Sequence[str] = ()
    notes: Sequence[str] = ()


def explained(
    settings: Settings, name: str, *, agent: str | None, parent: str | None, wishes: Wishes
) -> ExplainedAgent | None:
    """The effective spec of an agent of this process's modules, or of a file; None = they do not have it.

    Args:
        name: The agent, or the path of a file.
        agent: The one of the file; None = its outermost.
        parent: Whose child it is shown as; None = as a root.
        wishes: Of the launch.
    """
    from retinue.agents.agentspec.loading import load_agent_spec
    from retinue.agents.agentspec.stand_in import with_stand_ins
    from retinue.agents.effective.explain import explain
    from retinue.agents.registry.registry import Registry

    registry, path = declared(settings), spec_file(name)
    if path is None:
        if registry is None or (name not in registry.agents and _is_advertised(settings, name)):
            return None
        return ExplainedAgent(explain(registry, settings, name, wishes=wishes, parent=parent))
    loaded = load_agent_spec(path)
    # Its notes are shown with it: they need not be logged as well.
    quiet = replace(loaded, notes=())
    whole, unknown = with_stand_ins(registry or Registry.from_objects(), quiet)
    shown = agent or loaded.name
    whole.check_in_document(shown)
    values = explain(whole, settings, shown, wishes=wishes, parent=parent)
    return ExplainedAgent(values, unknown, loaded.notes)


def _is_advertised(settings: Settings, name: str) -> bool:
    from retinue.contract import RetinueError

    try:
        return name in advertised(settings).agents
    except RetinueError:
        return False
