"""The check of an output schema as far as it goes without a validator: shape, bounds and references.

Whether it is a valid JSON schema in all its words is for whoever has the jsonschema package to say, see
retinue.agents.builtin_tools.output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import unquote

from pydantic import BaseModel, JsonValue
from pydantic.errors import PydanticUserError

from .canonical import json_object, mappings
from .errors import SubagentLifecycleError
from .limits import OUTPUT_SCHEMA_MAX_BYTES

# Words that let "#/..." mean another document than this one.
_OTHER_BASES: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"})
_bounded: Final = json_object(max_bytes=OUTPUT_SCHEMA_MAX_BYTES)


def output_schema(field: str, value: object) -> dict[str, JsonValue]:
    """A check for the JSON schema of an object; it answers a copy in plain dicts and lists.

    Args:
        value: the schema as a mapping, or a pydantic model class, of which it takes the schema.

    Raises:
        SubagentLifecycleError: too large or too deep, not of an object, or a reference that leads out of it
            or nowhere: nothing is ever fetched for a schema.
    """
    if isinstance(value, type) and issubclass(value, BaseModel):
        value = _schema_of(field, value)
    schema = cast("dict[str, JsonValue]", _bounded(field, value))
    if schema.get("type") != "object":
        raise SubagentLifecycleError(
            "is not the schema of an object",
            field=field,
            limit='a JSON schema with "type": "object"',
            mend='wrap the value: {"type": "object", "properties": {"value": ...}, "required": ["value"]}',
        )
    for node in mappings(schema):
        fault = _reference_fault(schema, node)
        if fault is not None:
            raise SubagentLifecycleError(
                fault,
                field=field,
                limit='references within the schema, such as "#/$defs/item"',
                mend="put what it refers to under $defs",
            )
    return schema


def _schema_of(field: str, model: type[BaseModel]) -> object:
    try:
        return model.model_json_schema()
    except PydanticUserError as error:
        fault = SubagentLifecycleError(
            f"the model {model.__name__} has no JSON schema: {str(error).splitlines()[0]}",
            field=field,
            mend="use JSON types in its fields",
        )
    raise fault


def _reference_fault(schema: dict[str, JsonValue], node: Mapping[str, JsonValue]) -> str | None:
    if node is not schema:
        # As the name of a property it has a schema for a value, and not a text.
        other = [word for word in sorted(_OTHER_BASES & node.keys()) if isinstance(node[word], str)]
        if other:
            return f"uses {other[0]} within"
    ref = node.get("$ref")
    if not isinstance(ref, str) or _leads_somewhere(schema, ref):
        return None
    return f"has the reference {ref[:200]!r}, which leads out of it or nowhere"


def _leads_somewhere(schema: JsonValue, ref: str) -> bool:
    if ref != "#" and not ref.startswith("#/"):
        return False
    found = schema
    for step in ref.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return False
    return isinstance(found, dict | bool)
