"""Loads Agent Spec documents: objects, YAML, JSON, dicts, and disaggregated ones.

pyagentspec is imported inside the functions: applications without such documents do not pay for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from retinue.contract import AgentSpecError

from .agentspec_member import AgentSpecDeclaration

if TYPE_CHECKING:
    from pyagentspec.component import Component

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PARTS: Final = "$referenced_components"


def load_agent_spec(
    source: str | Path | Mapping[str, Any] | Component,
    *,
    components_registry: object = None,
    name: str | None = None,
) -> AgentSpecDeclaration:
    """An Agent Spec agent or group, ready to be registered; assign it at the top level of a worker's module.

    Args:
        source: path of a ``.yaml``, ``.yml`` or ``.json`` file (relative to the working directory), the text
            of one, the same as a dict, or a pyagentspec object.
        components_registry: for a disaggregated document, its other parts: a path, text or dict of a document
            with ``$referenced_components``, several of them in a list, or a mapping of ids to components.
        name: what launches call it. None = its own name.

    Returns:
        What the document declares. Its ServerTools are looked up by name when a worker loads its modules.

    Raises:
        AgentSpecError: it cannot be read, or holds a kind, a tool or a credential that Retinue does not take.
    """
    component = source if is_component(source) else _deserialise(source, _parts(components_registry))
    from .agentspec_convert import convert

    return convert(cast("Component", component), name=name)


def is_component(value: object) -> bool:
    """Whether the value is a pyagentspec component; without importing pyagentspec to find out."""
    module = sys.modules.get("pyagentspec.component")
    return module is not None and issubclass(type(value), module.Component)


def is_agentic(value: object) -> bool:
    """Whether the value is a pyagentspec component that acts: an agent, a group, a flow ..."""
    module = sys.modules.get("pyagentspec.agenticcomponent")
    return module is not None and issubclass(type(value), module.AgenticComponent)


def _deserialise(source: object, registry: Mapping[str, Any] | None, *, parts: bool = False) -> Any:
    """The component of a document, or, with `parts`, its components by id."""
    text, label = _text(source)
    try:
        from pyagentspec.serialization import AgentSpecDeserializer
    except ImportError:
        raise AgentSpecError(
            "Agent Spec documents need pyagentspec", mend='pip install "retinue[worker]"'
        ) from None
    reader = AgentSpecDeserializer()
    read = (
        reader.from_dict
        if isinstance(text, dict)
        else reader.from_json
        if text.lstrip().startswith("{")
        else reader.from_yaml
    )
    fault = ""
    try:
        with warnings.catch_warnings():
            # `handoff: true` of older documents; our users cannot act on it here.
            warnings.simplefilter("ignore", DeprecationWarning)
            return cast("Any", read)(
                text, components_registry=registry, import_only_referenced_components=parts
            )
    except Exception as error:
        fault = _reason(error)
    # Outside of the handler: pydantic's error holds the input, which may hold a key.
    raise AgentSpecError(
        f"{label} cannot be loaded: {fault}", mend="correct the document, or load its parts with it"
    )


def _parts(value: object) -> dict[str, Any] | None:
    """A components registry, made of documents where documents were given."""
    if value is None:
        return None
    if isinstance(value, Mapping) and _PARTS not in value:
        return {str(key): item for key, item in cast("Mapping[object, Any]", value).items()}
    many = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    result: dict[str, Any] = {}
    for document in cast("Sequence[object]", value) if many else [value]:
        loaded = _deserialise(document, result or None, parts=True)
        result.update(cast("Mapping[str, Any]", loaded))
    return result


def _text(source: object) -> tuple[str | dict[str, Any], str]:
    """The document's text or dict, and what to call it in a message."""
    if isinstance(source, Mapping):
        return dict(cast("Mapping[str, Any]", source)), "the Agent Spec dict"
    if isinstance(source, str) and not ("\n" not in source and source.endswith(_SUFFIXES)):
        return source, "the Agent Spec text"
    if not isinstance(source, str | Path):
        raise AgentSpecError(
            f"a {type(source).__name__} is no Agent Spec document",
            mend="give a path, YAML or JSON text, a dict, or a pyagentspec object",
        )
    try:
        return Path(source).read_text(encoding="utf-8"), str(source)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise AgentSpecError(
            f"{source} cannot be read: {reason}", mend=f"give a path that exists, seen from {Path.cwd()}"
        ) from None


def _reason(error: Exception) -> str:
    """What is wrong, without any value of the document."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults
        )
    if type(error).__module__.startswith("yaml"):
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        return f"it is not YAML{place}"
    if isinstance(error, ValueError) and type(error).__name__ == "JSONDecodeError":
        return "it is not JSON"
    return f"{type(error).__name__}: {str(error)[:500]}"
