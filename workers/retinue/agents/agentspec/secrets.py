"""Credentials of Agent Spec documents: by reference, or, where the operator allows it, kept in this process.

A document refers to a credential as ``{"$component_ref": "<id>.<field>"}``; the settings hold the value. One
that is written into a document is refused. If ``[agent_spec] allow_embedded_secrets`` is set it is taken out
at loading and kept here: nothing that is stored, sent or shown ever holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Literal, cast

from pydantic import SecretStr

from retinue.broker.settings import load_settings
from retinue.contract import AgentSpecError
from retinue.contract.document import SENSITIVE_FIELDS

SecretOwner = Literal["llm", "remote", "mcp"]
"""Whose credential: an LLM config's, a RemoteTool's, an MCP transport's; each is found by name."""

_FIELDS: Final = SENSITIVE_FIELDS | {"client_id", "client_secret", "client_id_metadata_url"}
_MAPPINGS: Final = frozenset({"sensitive_headers"})
_STAND_IN: Final = "retinue: given by reference"
_REFERENCE: Final = "$component_ref"
_SECTIONS: Final = (
    ("RemoteTool", "remote_tools.tools"),
    ("Transport", "mcp.servers"),
    ("ClientConfigWithApiKey", None),  # of OCI: nothing to set, for it is not supported
    ("Config", "llm_configs"),
)
_SETTINGS: Final = {"api_key": "api_key_env", "sensitive_headers": "headers"}

_kept: dict[tuple[SecretOwner, str], dict[str, SecretStr]] = {}


def stand_ins(document: object, given: Iterable[str]) -> dict[str, object]:
    """What a loader needs in place of the credentials that a document refers to.

    Args:
        document: the document as a dict, with everything in it.
        given: ids of the references that are resolved already.

    Returns:
        For a components registry, by reference id.
    """
    known = frozenset(given)
    result: dict[str, object] = {}
    for field, value in _fields(document):
        reference = _reference(value, known)
        if field in _FIELDS and reference:
            result[reference] = {_STAND_IN: _STAND_IN} if field in _MAPPINGS else _STAND_IN
    return result


def settings_for_references(document: object, given: Iterable[str]) -> list[str]:
    """Where the settings must hold the credentials that a document refers to, one line per component.

    Args:
        document: the document as a dict.
        given: ids of the references that are resolved already.
    """
    known = frozenset(given)
    lines: list[str] = []
    for component in _mappings(document):
        kind, name = str(component.get("component_type", "")), component.get("name")
        section = next((section for end, section in _SECTIONS if kind.endswith(end)), None)
        fields = [f for f, value in component.items() if f in _FIELDS and _reference(value, known)]
        if fields and section:
            lines.append(f'[{section}."{name}"] {", ".join(_SETTINGS.get(f, f) for f in fields)}')
    return list(dict.fromkeys(lines))


def is_reference(value: object) -> bool:
    """Whether a loaded component's field holds a reference in place of a credential."""
    return value == _STAND_IN or (isinstance(value, Mapping) and _STAND_IN in value)


def keep_embedded(
    owner: SecretOwner, name: str, values: Mapping[str, object], *, what: str, mend: str
) -> None:
    """Take credentials of a document into this process's memory.

    Args:
        name: whose they are; that of the LLM config, tool or transport.
        values: the credentials, by field or header.
        what: the same in words, for the message.
        mend: where they belong.

    Raises:
        AgentSpecError: the operator does not allow it, or another document gave others under that name.
    """
    fields = ", ".join(values)
    if not load_settings().agent_spec.allow_embedded_secrets:
        raise AgentSpecError(f"{what} carries the sensitive field {fields}", field=fields, mend=mend)
    secrets = {field: SecretStr(str(value)) for field, value in values.items()}
    known = _kept.setdefault((owner, name), {})
    if any(known.get(field, secret) != secret for field, secret in secrets.items()):
        raise AgentSpecError(
            f"{what} carries another {fields} than an earlier document's of the same name",
            field=fields,
            mend="give one of them another name",
        )
    known.update(secrets)


def kept_secrets(owner: SecretOwner, name: str) -> Mapping[str, SecretStr]:
    """The credentials that documents of this process brought along, by field or header."""
    return _kept.get((owner, name), {})


def _reference(value: object, known: frozenset[str]) -> str | None:
    """The id that the value refers to, if it is a reference that is not resolved yet."""
    target = cast("Mapping[str, object]", value).get(_REFERENCE) if isinstance(value, Mapping) else None
    return target if isinstance(target, str) and target not in known else None


def _fields(value: object) -> Iterable[tuple[str, object]]:
    return ((name, member) for item in _mappings(value) for name, member in item.items())


def _mappings(value: object) -> Iterable[Mapping[str, object]]:
    """Every mapping in the document, the outermost first."""
    waiting: deque[object] = deque([value])
    seen: set[int] = set()  # YAML's aliases share their target: it is looked at once
    while waiting:
        item = waiting.popleft()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Mapping):
            members = {str(k): v for k, v in cast("Mapping[object, object]", item).items()}
            yield members
            waiting.extend(members.values())
        elif isinstance(item, list | tuple):
            waiting.extend(cast("Iterable[object]", item))
