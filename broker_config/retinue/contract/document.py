"""Agent Spec documents that travel with a launch: plain, bounded JSON without credentials.

They are looked at as JSON only: whoever launches need not have pyagentspec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import JsonValue

from .canonical import canonical_json, json_object, mappings
from .credential_names import credential_names
from .errors import SubagentLifecycleError
from .limits import AGENT_SPEC_MAX_BYTES

SENSITIVE_FIELDS: Final = frozenset(
    {
        "api_key",
        "auth_file_location",
        "ca_file",
        "cert_file",
        "credentials",
        "dsn",
        "key_file",
        "password",
        "sensitive_headers",
        "user",
        "wallet_location",
        "wallet_password",
    }
)
"""What Agent Spec calls sensitive, of whichever component."""

_OWN_TOOLS: Final = ("ClientTool", "RemoteTool", "MCPTool")
_NAMED_VALUES: Final = ("headers", "query_params", "env")
_KIND: Final = "component_type"
_REFERENCE: Final = "$component_ref"
_PARTS: Final = "$referenced_components"
_bounded: Final = json_object(max_bytes=AGENT_SPEC_MAX_BYTES)


def agent_document(field: str, value: object) -> dict[str, JsonValue]:
    """A check for an Agent Spec document as a mapping; it answers a deep copy.

    Credentials may be referred to (``{"$component_ref": "<id>.api_key"}``), for workers read them from their
    settings; one that stands in the document is refused, since the document is stored.
    """
    document = _bounded(field, value)
    assert isinstance(document, dict)
    found = cast("dict[str, JsonValue]", document)
    if _name(_entry(found)) is None:
        raise SubagentLifecycleError(
            "is no Agent Spec document: it has no component_type, or no name",
            field=field,
            limit="a component as Agent Spec's serializer writes it",
            mend="give the whole document, not a part of it",
        )
    for component in components(found):
        secret = _secret(component)
        if secret is not None:
            kind, name = component[_KIND], component.get("name")
            raise SubagentLifecycleError(
                f"carries a credential: {secret} of {kind!s:.40} {name!s:.80}",
                field=field,
                limit="no credential leaves the process that launches",
                mend="take it out of the document, and give it to the workers' settings",
            )
    return found


def document_name(document: Mapping[str, JsonValue]) -> str:
    """The name of the agent or group that a checked document is about."""
    return _name(_entry(document)) or ""


def document_digest(document: Mapping[str, JsonValue]) -> str:
    """SHA-256, in hex, of a document's canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def server_tools(document: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The names of the document's ServerTools, sorted: functions that a worker must have."""
    names = {str(item.get("name")) for item in components(document) if item[_KIND] == "ServerTool"}
    return tuple(sorted(names))


def document_tools(document: Mapping[str, JsonValue]) -> dict[str, tuple[str, ...]]:
    """The tools that the document brings along, by the toolset under which launches grant them.

    Each is a toolset of its own; a toolbox is one, whose tools are known as far as its filter names them.
    """
    found: dict[str, tuple[str, ...]] = {}
    for item in components(document):
        name = str(item.get("name"))
        if item[_KIND] in _OWN_TOOLS:
            found[name] = (name,)
        elif item[_KIND] == "MCPToolBox":
            wishes = item.get("tool_filter")
            found[name] = (name, *map(_wished, wishes if isinstance(wishes, list) else ()))
    return found


def components(value: object) -> Iterator[Mapping[str, JsonValue]]:
    """Every component of a document, outermost first."""
    return (found for found in mappings(value) if _KIND in found)


def _wished(item: JsonValue) -> str:
    return str(item.get("name")) if isinstance(item, dict) else str(item)


def _entry(document: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """The outermost component; one that its own parts refer to stands among these."""
    parts = document.get(_PARTS)
    found = parts.get(str(document.get(_REFERENCE))) if isinstance(parts, dict) else None
    return found if isinstance(found, dict) else document


def _name(component: Mapping[str, JsonValue]) -> str | None:
    name = component.get("name")
    return name if _KIND in component and isinstance(name, str) and name.strip() else None


def _secret(component: Mapping[str, JsonValue]) -> str | None:
    """The component's field that holds a credential, or None."""
    for field, value in component.items():
        if field in SENSITIVE_FIELDS and value and not _is_reference(value):
            return field
    url = component.get("url")
    if isinstance(url, str) and ("@" in url or "?" in url) and _has_credential(url):
        return "url"
    for field in _NAMED_VALUES:
        values = component.get(field)
        for name in credential_names(values) if isinstance(values, dict) else ():
            return f"{field}.{name:.40}"
    return None


def _is_reference(value: JsonValue) -> bool:
    return isinstance(value, dict) and _REFERENCE in value


def _has_credential(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    in_query = credential_names(dict(parse_qsl(parts.query)))
    return parts.username is not None or parts.password is not None or bool(in_query)
