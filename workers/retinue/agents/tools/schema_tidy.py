"""Makes pydantic's JSON schemas short and flat, as models and OpenAI-compatible servers take them best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

_MAPS = frozenset({"properties", "$defs", "patternProperties"})  # keyed by names, not by schema words
_VALUES = frozenset({"default", "const", "enum", "examples"})  # hold data, not schemas
_REF = "#/$defs/"


class _RecursionFound(Exception):
    """Never leaves this module."""


def tidy(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The schema without titles, and without ``$ref`` unless a type is recursive."""
    bare = cast("dict[str, JsonValue]", _untitled(dict(schema)))
    definitions = cast("dict[str, JsonValue]", bare.get("$defs", {}))
    rest: dict[str, JsonValue] = {key: value for key, value in bare.items() if key != "$defs"}
    try:
        return cast("dict[str, JsonValue]", _inlined(rest, definitions, ()))
    except _RecursionFound:
        return bare


def _untitled(node: JsonValue) -> JsonValue:
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, JsonValue] = {}
    for key, value in node.items():
        if key in _VALUES:
            result[key] = value
        elif key in _MAPS and isinstance(value, dict):
            result[key] = {name: _untitled(item) for name, item in value.items()}
        elif key != "title":
            result[key] = _untitled(value)
    return result


def _inlined(node: JsonValue, definitions: Mapping[str, JsonValue], within: tuple[str, ...]) -> JsonValue:
    if isinstance(node, list):
        return [_inlined(item, definitions, within) for item in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith(_REF):
        name = ref.removeprefix(_REF)
        if name in within:
            raise _RecursionFound
        target = _inlined(definitions[name], definitions, (*within, name))
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**cast("dict[str, JsonValue]", target), **beside}
    result: dict[str, JsonValue] = {}
    for key, value in node.items():
        if key in _VALUES:
            result[key] = value
        elif key in _MAPS and isinstance(value, dict):
            result[key] = {name: _inlined(item, definitions, within) for name, item in value.items()}
        else:
            result[key] = _inlined(value, definitions, within)
    return result
