"""An agent's effective spec with the origin of each value: what `retinue agents show` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import JsonValue

from retinue.agents.registry.entry import AgentEntry, RosterEntry
from retinue.agents.registry.registry import Registry
from retinue.broker.routes import queue_for

from .effective import EffectiveSpec, Inheritance
from .model_route import ModelRoute, route_model
from .origin import Origin, Source
from .resolve import resolve

if TYPE_CHECKING:
    from retinue.broker.settings import Settings

_DECLARATION = Origin(Source.DECLARATION)
_DEFAULT = Origin(Source.DEFAULT)


@dataclass(frozen=True, slots=True)
class Explained:
    """One value of an effective spec.

    Args:
        name: of the value.
        value: plain JSON. None = there is none.
        origin: who decided it.
    """

    name: str
    value: JsonValue
    origin: Origin

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "source": self.origin.source.value,
            "place": self.origin.place or None,
        }


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a launch would ask for; see `resolve`."""

    model: str | None = None
    provider: str | None = None
    inputs: Mapping[str, JsonValue] | None = None
    allowed_toolsets: tuple[str, ...] | None = None
    blocked_tools: tuple[str, ...] = ()
    max_iterations: int | None = None


def explain(
    registry: Registry,
    settings: Settings,
    name: str,
    *,
    wishes: Wishes | None = None,
    parent: str | None = None,
) -> tuple[Explained, ...]:
    """What a run of an agent would get, and why. No credential is among it.

    Args:
        registry: where the agent is.
        settings: of this process.
        name: the agent.
        wishes: of the launch. Inputs that it lacks are left as their placeholders.
        parent: the agent that would delegate to it. None = it is launched as a root.

    Raises:
        SubagentLifecycleError, SettingsError: as `resolve`.
    """
    asked = wishes or Wishes()
    above = Inheritance()
    if parent is not None:
        above = _resolved(registry, settings, parent, Wishes(), Inheritance()).inheritance()
    entry = registry.agent(name)
    spec = _resolved(registry, settings, name, asked, above)
    values = [*_identity(entry), *_limits(entry, settings, asked, above, spec)]
    if entry.target is None:
        route = route_model(entry, settings, above, model=asked.model, provider=asked.provider)
        values += [
            *_model(entry, settings, route, spec),
            *_params(entry, route, above, spec),
            *_tools(entry, settings, asked, spec),
            Explained("prompt", spec.instructions, _DECLARATION),
        ]
    return tuple(values)


def _resolved(
    registry: Registry, settings: Settings, name: str, asked: Wishes, above: Inheritance
) -> EffectiveSpec:
    entry = registry.agent(name)
    needed = {item.name: item for inputs in entry.needs.values() for item in inputs if not item.has_default}
    # A spec can be looked at without the values that only a launch has.
    given = {**{key: _stand_in(key, item.types) for key, item in needed.items()}, **(asked.inputs or {})}
    return resolve(
        registry,
        settings,
        name,
        model=asked.model,
        provider=asked.provider,
        inputs=given,
        allowed_toolsets=asked.allowed_toolsets,
        blocked_tools=asked.blocked_tools,
        max_iterations=asked.max_iterations,
        parent=above,
    )


def _stand_in(name: str, types: Sequence[str]) -> JsonValue:
    others: dict[str, JsonValue] = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    return next((others[kind] for kind in types if kind in others), "{{" + name + "}}")


def _identity(entry: AgentEntry) -> Iterable[Explained]:
    place = Origin(Source.DECLARATION, f"at {entry.place}")
    yield Explained("name", entry.name, place)
    yield Explained("description", entry.description or None, _DECLARATION)
    if entry.when_to_use:
        yield Explained("when_to_use", entry.when_to_use, _DECLARATION)
    if entry.target is not None:
        yield Explained("runs", type(entry.target).__name__, _DECLARATION)
        yield Explained("restartable", entry.restartable, _DECLARATION if entry.restartable else _DEFAULT)


def _limits(
    entry: AgentEntry, settings: Settings, asked: Wishes, above: Inheritance, spec: EffectiveSpec
) -> Iterable[Explained]:
    def limit(name: str, requested: int | None, otherwise: Origin) -> Explained:
        if requested is not None:
            origin = Origin(Source.REQUEST)
        elif getattr(entry.config, name) is not None:
            origin = _DECLARATION
        elif entry.inherits and getattr(above, name) is not None:
            origin = Origin(Source.PARENT)
        else:
            origin = otherwise
        return Explained(name, getattr(spec, name), origin)

    yield limit("max_iterations", asked.max_iterations, Origin(Source.SETTINGS, "max_iterations"))
    yield limit("max_tool_calls", None, _DEFAULT)
    queue = queue_for(entry.name, settings, entry.config.queue)
    yield Explained("queue", queue, _queue_origin(entry, settings, queue))
    yield Explained("max_depth", settings.max_depth, Origin(Source.SETTINGS, "max_depth"))


def _queue_origin(entry: AgentEntry, settings: Settings, queue: str) -> Origin:
    # No settings can name such a queue: it comes back where no route applies.
    if queue_for(entry.name, settings, "\0") != "\0":
        return Origin(Source.SETTINGS, "routes")
    return _DECLARATION if entry.config.queue == queue else Origin(Source.SETTINGS, "queue")


def _model(
    entry: AgentEntry, settings: Settings, route: ModelRoute, spec: EffectiveSpec
) -> Iterable[Explained]:
    yield Explained("model", spec.model, route.model_from)
    llm = spec.llm
    if llm is None or spec.provider is not None:
        yield Explained("provider", spec.provider, route.endpoint_from)
        bundle = settings.provider(spec.provider or "")
        place = Origin(Source.PROVIDER, f"providers.{spec.provider}")
        yield Explained("base_url", _without_user(bundle.base_url), place)
        yield Explained("api", bundle.api, place)
        return
    override = settings.llm_configs.get(llm.name)
    moved = override is not None and override.url is not None
    url = override.url if override is not None and moved else llm.url
    setting = Origin(Source.SETTINGS, f"llm_configs.{llm.name}.url")
    yield Explained("provider", llm.name, route.endpoint_from)
    yield Explained("base_url", _without_user(url or ""), setting if moved else route.endpoint_from)
    yield Explained("api", llm.api, route.endpoint_from)


def _params(
    entry: AgentEntry, route: ModelRoute, above: Inheritance, spec: EffectiveSpec
) -> Iterable[Explained]:
    own = entry.config.request_params()
    for name, value in sorted(spec.params.items()):
        if name in own:
            origin = _DECLARATION
        elif entry.inherits and name in above.params and above.params[name] == value:
            origin = Origin(Source.PARENT)
        else:
            origin = route.endpoint_from
        yield Explained(name, value, origin)


def _tools(entry: AgentEntry, settings: Settings, asked: Wishes, spec: EffectiveSpec) -> Iterable[Explained]:
    tools: list[JsonValue] = [{"name": item.name, "toolset": item.toolset} for item in spec.tools]
    yield Explained("tools", tools, _DECLARATION)
    offered = {item.name for item in spec.tools}
    left_out = sorted({item.name for item in entry.tools} - offered)
    if left_out:
        yield Explained("tools_left_out", list[JsonValue](left_out), _grant_origin(left_out, settings, asked))
    built_in = [tool.name for tool in spec.built_in_tools]
    yield Explained("built_in_tools", list[JsonValue](built_in), _DECLARATION)
    yield Explained("sub_agents", _lines(spec.roster), _DECLARATION)
    if spec.handoffs:
        yield Explained("handoffs", _lines(spec.handoffs), _DECLARATION)
    if spec.background:
        own = entry.config.background is not None
        setting = Origin(Source.SETTINGS, "delegation.background")
        yield Explained("background", True, _DECLARATION if own else setting)
    for name in ("ask_user", "ask_parent"):
        if getattr(spec, name):
            yield Explained(name, True, _DECLARATION)
    if spec.output_schema is not None:
        yield Explained("output_schema", dict[str, Any](spec.output_schema), _DECLARATION)
    needed = {item.name for inputs in entry.needs.values() for item in inputs if not item.has_default}
    if needed:
        yield Explained("inputs", list[JsonValue](sorted(needed)), _DECLARATION)


def _grant_origin(names: Sequence[str], settings: Settings, asked: Wishes) -> Origin:
    if set(names) <= set(settings.delegation.blocked_tools):
        return Origin(Source.SETTINGS, "delegation.blocked_tools")
    asks = asked.allowed_toolsets is not None or set(names) & set(asked.blocked_tools)
    return Origin(Source.REQUEST if asks else Source.PARENT)


def _lines(roster: Sequence[RosterEntry]) -> JsonValue:
    return [{"name": item.name, "description": item.description} for item in roster]


def _without_user(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
