"""Why a document cannot be deserialised: all of it at once, with the components' names and without values.

pyagentspec stops at the first component that is wrong, and says where it stands as a path of fields.
"""

from __future__ import annotations

import importlib.metadata
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

_PARTS: Final = "$referenced_components"
_REFERENCE: Final = "$component_ref"
_TEXT_MAX_CHARS: Final = 500
_VERSION: Final = re.compile(r"AgentSpecVersionEnum\.v(\d+)_(\d+)_(\d+)")
_BOUND: Final = re.compile(r"bounded by (component '[^']{1,80}')")


def document_faults(
    document: Mapping[str, Any], registry: Mapping[str, Any], error: Exception, *, parts: bool
) -> list[str]:
    """What is wrong with a document that pyagentspec refused.

    Args:
        document: as a dict.
        registry: what it was loaded with, by id.
        error: the refusal.
        parts: its parts alone were asked for.
    """
    if set(document) == {_PARTS} and not parts:
        return ["it holds parts of another document: load that one, with this as its components_registry"]
    found = _version_fault(document) or _unknown_kinds(document) or _partial(document, registry, parts)
    return found or [fault_text(error)]


def fault_text(error: Exception) -> str:
    """An error as text, without any value of the document."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults
        )
    if type(error).__module__.startswith("yaml"):
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        return f"it is not YAML{place}"
    if type(error).__name__ == "JSONDecodeError":
        return "it is not JSON"
    return _too_old(str(error)) or f"{type(error).__name__}: {str(error)[:_TEXT_MAX_CHARS]}"


def _too_old(text: str) -> str | None:
    """The same in a document's own words, where a part of it is newer than the version that it names."""
    versions = [".".join(found) for found in _VERSION.findall(text)]
    if len(versions) != 2 or "minimum" not in text:
        return None
    part = _BOUND.search(text)
    needed_by = f"its {part[1]}" if part else "a part of it"
    return f"its agentspec_version {versions[0]} is too old: {needed_by} needs {versions[1]} or a later one"


def _version_fault(document: Mapping[str, Any]) -> list[str]:
    from pyagentspec.versioning import AgentSpecVersionEnum

    known = [str(version.value) for version in AgentSpecVersionEnum]
    asked = document.get("agentspec_version")
    if asked is None or str(asked) in known:
        return []
    installed = importlib.metadata.version("pyagentspec")
    return [
        f"its agentspec_version {str(asked)[:40]!r} is none that pyagentspec {installed} knows "
        f"({', '.join(known)})"
    ]


def _unknown_kinds(document: Mapping[str, Any]) -> list[str]:
    from pyagentspec.serialization.builtinsdeserializationplugin import BuiltinsComponentDeserializationPlugin

    known = set(BuiltinsComponentDeserializationPlugin().supported_component_types())
    faults = [
        f"{_label(item)} is of no kind that Agent Spec has"
        for item in _components(document)
        if item["component_type"] not in known
    ]
    return list(dict.fromkeys(faults))


def _partial(document: Mapping[str, Any], registry: Mapping[str, Any], parts: bool) -> list[str]:
    """What pyagentspec finds when it is told to go on after a fault."""
    from pyagentspec.serialization import AgentSpecDeserializer

    read = cast("Any", AgentSpecDeserializer().from_partial_dict)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, errors = read(
                document, components_registry=dict(registry), import_only_referenced_components=parts
            )
    except Exception:
        return []  # it could not go on: the first refusal says all there is
    return list(dict.fromkeys(_where(document, fault.loc, fault.msg) for fault in errors))


def _where(document: Mapping[str, Any], path: tuple[int | str, ...], message: str) -> str:
    """A fault with what it is about: the innermost component on its path, and the rest of the path.

    A component that is not of a kind that fits is the fault of whichever holds it, in that field.
    """
    named = {name: item for part in _mappings(document) for name, item in _referenced(part).items()}
    value: Any = document
    component, rest, holder = value, list[str](), ""
    for step in path:
        value = _step(value, step)
        if isinstance(value, Mapping) and _REFERENCE in value:
            value = named.get(str(cast("Mapping[str, Any]", value)[_REFERENCE]))
        rest.append(str(step))
        if isinstance(value, Mapping) and "component_type" in value:
            holder = f"{_label(component)}: {'.'.join(rest)}: "
            component, rest = value, []
    does_not_fit = not rest and message.startswith("Input should be")
    place = f"{holder if does_not_fit else ''}{_label(component)}: "
    return place + (f"{'.'.join(rest)}: " if rest else "") + _plain(message)


def _step(value: Any, step: int | str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(cast("list[Any]", value)):
        return value[step]
    return None


def _label(component: Mapping[str, Any]) -> str:
    return f"{str(component.get('component_type'))[:80]} {str(component.get('name'))[:80]!r}"


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _components(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (item for item in _mappings(document) if isinstance(item.get("component_type"), str))


def _referenced(part: Mapping[str, Any]) -> dict[str, Any]:
    referenced = part.get(_PARTS)
    return cast("dict[str, Any]", referenced) if isinstance(referenced, dict) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    waiting = [value]
    seen: set[int] = set()  # YAML's aliases share their target: it is looked at once
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Mapping):
            yield cast("Mapping[str, Any]", item)
            waiting.extend(cast("Mapping[str, Any]", item).values())
        elif isinstance(item, list):
            waiting.extend(cast("list[object]", item))
