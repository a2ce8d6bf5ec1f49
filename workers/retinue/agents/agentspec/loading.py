"""Loads Agent Spec documents: objects, YAML, JSON, dicts, and disaggregated ones.

pyagentspec is imported inside the functions: applications without such documents do not pay for it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from retinue.contract import AgentSpecError

from .faults import document_faults, fault_text
from .member import AgentSpecDeclaration
from .secrets import settings_for_references, stand_ins

if TYPE_CHECKING:
    from pyagentspec.component import Component

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PARTS: Final = "$referenced_components"


def load_agent_spec(
    source: str | Path | Mapping[str, Any] | Component,
    *,
    components_registry: object = None,
    name: str | None = None,
    qualified: bool = False,
) -> AgentSpecDeclaration:
    """An Agent Spec agent or group, ready to be registered; assign it at the top level of a worker's module.

    Args:
        source: path of a ``.yaml``, ``.yml`` or ``.json`` file (relative to the working directory), the text
            of one, the same as a dict, or a pyagentspec object.
        components_registry: for a disaggregated document, its other parts: a path, text or dict of a document
            with ``$referenced_components``, several of them in a list, or a mapping of ids to components.
        name: what launches call it. None = its own name.
        qualified: registers every member of a group as ``<group>/<member>``, and not only where its own name
            is taken: documents with members of the same names can then stand side by side.

    Returns:
        What the document declares. Its ServerTools are looked up by name when a worker loads its modules.

    Raises:
        AgentSpecError: it cannot be read, or holds a kind, a tool or a credential that Retinue does not take.
    """
    needed: list[str] = []
    parts = _parts(components_registry, needed)
    component = source if is_component(source) else _deserialise(source, parts, needed)
    from .convert import convert

    try:
        declaration = convert(cast("Component", component), name=name, qualified=qualified)
    except AgentSpecError as error:
        if needed:
            error.mend = f"{error.mend}; its credentials belong into retinue.toml: {'; '.join(needed)}"
        raise
    notes = (f"retinue.toml must set {line}" for line in needed)
    return replace(declaration, notes=(*declaration.notes, *notes))


def is_component(value: object) -> bool:
    """Whether the value is a pyagentspec component; without importing pyagentspec to find out."""
    module = sys.modules.get("pyagentspec.component")
    return module is not None and issubclass(type(value), module.Component)


def is_agentic(value: object) -> bool:
    """Whether the value is a pyagentspec component that acts: an agent, a group, a flow ..."""
    module = sys.modules.get("pyagentspec.agenticcomponent")
    return module is not None and issubclass(type(value), module.AgenticComponent)


def _deserialise(
    source: object, registry: Mapping[str, Any] | None, needed: list[str], *, parts: bool = False
) -> Any:
    """The component of a document, or, with `parts`, its components by id.

    Args:
        needed: gets a line for each component whose credentials the settings must give.
    """
    text, label = _text(source)
    try:
        from pyagentspec.serialization import AgentSpecDeserializer
    except ImportError:
        raise AgentSpecError(
            "Agent Spec documents need pyagentspec", mend='pip install "retinue[worker]"'
        ) from None
    reader = AgentSpecDeserializer()
    document: dict[str, Any] = {}
    known: dict[str, Any] = {}
    faults: list[str] = []
    try:
        document = _parsed(text)
        known = {**stand_ins(document, registry or {}), **(registry or {})}
        needed.extend(settings_for_references(document, registry or {}))
        with warnings.catch_warnings():
            # `handoff: true` of older documents; our users cannot act on it here.
            warnings.simplefilter("ignore", DeprecationWarning)
            return cast("Any", reader.from_dict)(
                document, components_registry=known or None, import_only_referenced_components=parts
            )
    except Exception as error:
        faults = document_faults(document, known, error, parts=parts) if document else [fault_text(error)]
    # Outside of the handler: pydantic's error holds the input, which may hold a key.
    raise AgentSpecError(
        f"{label} cannot be loaded: {'; '.join(faults)}",
        mend="correct the document, or load its parts with it",
    )


def _parsed(text: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(text, dict):
        return text
    value: object
    if text.lstrip().startswith("{"):
        value = json.loads(text)
    else:
        import yaml

        value = yaml.safe_load(text)
    if not isinstance(value, dict):
        raise ValueError("it holds no component")
    return cast("dict[str, Any]", value)


def _parts(value: object, needed: list[str]) -> dict[str, Any] | None:
    """A components registry, made of documents where documents were given."""
    if value is None:
        return None
    if isinstance(value, Mapping) and _PARTS not in value:
        return {str(key): item for key, item in cast("Mapping[object, Any]", value).items()}
    many = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    result: dict[str, Any] = {}
    for document in cast("Sequence[object]", value) if many else [value]:
        loaded = _deserialise(document, result or None, needed, parts=True)
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
