"""Reads the arguments that a model supplied, and says what is wrong with them so that it can do better."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Final, NoReturn, cast

from pydantic import JsonValue, ValidationError

from retinue.contract.errors import RetinueError

from .schema import ArgumentSchema

_EXCERPT_MAX_CHARS: Final = 80
_PROBLEMS_MAX: Final = 8


class ToolArgumentError(RetinueError):
    """A model's call that cannot be run as it is; the text is the call's result, written for the model."""


def parse_arguments(raw: str | bytes | Mapping[str, object] | None) -> dict[str, object]:
    """The JSON object that a model wrote as a call's arguments.

    Args:
        raw: as the API hands it over. Empty text and None mean no arguments; an object that was encoded
            twice is decoded twice.

    Raises:
        ToolArgumentError: not a JSON object.
    """
    if raw is None or isinstance(raw, Mapping):
        return dict(raw or {})
    value: JsonValue = _decode(raw)
    if isinstance(value, str):
        value = _decode(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ToolArgumentError(
            f"The arguments are {_kind(value)}, not a JSON object. Send one object: the arguments by name."
        )
    return cast("dict[str, object]", value)


def check_arguments(
    schema: ArgumentSchema, raw: str | bytes | Mapping[str, object] | None
) -> dict[str, object]:
    """The arguments as the function takes them: converted to its types, by name, only those that were given.

    Args:
        schema: what the function takes.
        raw: as for `parse_arguments`. Text that holds JSON is accepted where a list or object is due.

    Raises:
        ToolArgumentError: lists every unknown, missing and wrong argument, and what is allowed.
    """
    values = parse_arguments(raw)
    try:
        checked = schema.model.model_validate(values)
    except ValidationError as error:
        repaired = _unquoted(values, error)
        if repaired is None:
            _refuse(schema, error)
        try:
            checked = schema.model.model_validate(repaired)
        except ValidationError:
            _refuse(schema, error)
    return {
        name: getattr(checked, f"p{number}")
        for number, name in enumerate(schema.names)
        if f"p{number}" in checked.model_fields_set
    }


def _decode(raw: str | bytes) -> JsonValue:
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    if not text.strip():
        return None
    try:
        return cast("JsonValue", json.loads(text, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or not a number"
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise ToolArgumentError(
            f"The arguments are not valid JSON ({reason}{place}). Send one complete JSON object."
        ) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _unquoted(values: Mapping[str, object], error: ValidationError) -> dict[str, object] | None:
    """The values with JSON in text decoded where a list or an object was due; None = no such text."""
    result = dict(values)
    changed = False
    for problem in error.errors(include_url=False, include_context=False):
        value = result.get(str(problem["loc"][0])) if problem["loc"] else None
        if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
            try:
                result[str(problem["loc"][0])] = json.loads(value)
                changed = True
            except (ValueError, RecursionError):
                continue
    return result if changed else None


def _refuse(schema: ArgumentSchema, error: ValidationError) -> NoReturn:
    lines: list[str] = []
    for problem in error.errors(include_url=False, include_context=False):
        loc = problem["loc"]
        name = ".".join(str(part) for part in loc)
        if problem["type"] == "extra_forbidden" and len(loc) == 1:
            near = difflib.get_close_matches(name, schema.names, n=1)
            lines.append(f"unknown argument {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
        elif problem["type"] == "missing":
            lines.append(f"missing argument {name!r}")
        else:
            lines.append(f"argument {name!r}: {problem['msg']}, got {_excerpt(problem['input'])}")
    more = len(lines) - _PROBLEMS_MAX
    if more > 0:
        lines = [*lines[:_PROBLEMS_MAX], f"and {more} more"]
    # Without the cause: its text repeats the arguments at full length.
    raise ToolArgumentError(f"The call was not run: {'; '.join(lines)}. {_allowed(schema)}") from None


def _allowed(schema: ArgumentSchema) -> str:
    if not schema.names:
        return "This tool takes no arguments."
    properties = cast("Mapping[str, Mapping[str, object]]", schema.parameters["properties"])
    parts = [
        f"{name} ({properties[name].get('type', 'any')}{', required' if name in schema.required else ''})"
        for name in schema.names
    ]
    return f"Allowed arguments: {', '.join(parts)}."


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _EXCERPT_MAX_CHARS else text[:_EXCERPT_MAX_CHARS] + "..."


def _kind(value: JsonValue) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "text"
    return "a boolean" if isinstance(value, bool) else "a number"
