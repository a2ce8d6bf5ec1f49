"""Checking values against JSON schemas from outside: in bounded time, fetching nothing.

The jsonschema package is imported at the first use only. Two of its ways are changed: patterns are matched by
pydantic's engine, whose time is linear, and the number of steps is bounded, for a few nested references can
ask for 2^100. References that lead outside have been refused before, see retinue.contract.output_schema.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema

from retinue.agents.checks import as_declaration, optional_output_schema
from retinue.contract import SubagentLifecycleError

_STEPS_MAX: Final = 200_000  # keywords looked at in one check; 64 KiB of numbers take half of it
_FAULTS_MAX: Final = 5
_PLACE_MAX_CHARS: Final = 120
_FAULT_EDGE_CHARS: Final = 150


class _TooManyStepsError(Exception):
    """Never leaves this module."""


@dataclass(slots=True)
class _Steps:
    left: int = _STEPS_MAX


_steps: ContextVar[_Steps] = ContextVar("steps")


def check_is_schema(schema: Mapping[str, JsonValue], *, field: str = "output_schema") -> None:
    """Refuse what is no JSON schema (draft 2020-12), or one with patterns that cannot be matched safely.

    Where the jsonschema package is not installed, nothing is checked.

    Raises:
        SubagentLifecycleError: says where and what.
    """
    if importlib.util.find_spec("jsonschema") is None:
        return
    from jsonschema.exceptions import SchemaError as NoSchemaError

    fault = _pattern_fault(schema)
    if fault is None:
        try:
            _validator_class().check_schema(schema)
        except NoSchemaError as error:
            fault = f"is no JSON schema: {_line(error)}"
    if fault is not None:
        raise SubagentLifecycleError(
            fault,
            field=field,
            limit="JSON schema, draft 2020-12, without patternProperties",
            mend="correct it there; a pydantic model's model_json_schema() is always right",
        )


def checked_output(value: object, *, agent: str) -> dict[str, JsonValue] | None:
    """None, or the output schema that an agent declares.

    Raises:
        DeclarationError: it is no JSON schema of an object; names the agent.
    """
    schema = optional_output_schema(value, agent=agent)
    if schema is None:
        return None
    try:
        check_is_schema(schema)
    except SubagentLifecycleError as error:
        fault = as_declaration(error, agent=agent)
    else:
        return schema
    raise fault


def faults(schema: Mapping[str, JsonValue], value: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """What of a value does not fit a schema, one line each; none = it fits.

    Args:
        schema: as `check_is_schema` accepted it.
        value: JSON.
    """
    spending = _steps.set(_Steps())
    try:
        found = list(islice(_validator_class()(schema).iter_errors(value), _FAULTS_MAX + 1))
    except (_TooManyStepsError, RecursionError):
        return ("it takes too long to check against the schema",)
    finally:
        _steps.reset(spending)
    lines = tuple(_line(error) for error in found[:_FAULTS_MAX])
    return (*lines, "and more") if len(found) > _FAULTS_MAX else lines


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    keywords: dict[str, Any] = {**Draft202012Validator.VALIDATORS, "pattern": _pattern}
    return extend(Draft202012Validator, {name: _counted(check) for name, check in keywords.items()})


def _counted(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def counted(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
        steps = _steps.get(None)
        if steps is not None:
            steps.left -= 1
            if steps.left < 0:
                raise _TooManyStepsError
        yield from check(validator, wanted, instance, schema) or ()

    return counted


def _pattern(_validator: Any, pattern: str, instance: object, _schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError as Unfit

    if isinstance(instance, str) and not _matches(pattern, instance):
        yield Unfit(f"{instance!r} does not match {pattern!r}")


def _matches(pattern: str, text: str) -> bool:
    try:
        _compiled(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern))


def _pattern_fault(node: object) -> str | None:
    if isinstance(node, list):
        return next(filter(None, map(_pattern_fault, cast("list[object]", node))), None)
    if not isinstance(node, Mapping):
        return None
    words = cast("Mapping[str, object]", node)
    # As the name of a property it has a schema, and not the text of a pattern.
    pattern = words.get("pattern")
    if isinstance(pattern, str):
        try:
            _compiled(pattern)
        except SchemaError:
            return f"has the pattern {pattern[:_PLACE_MAX_CHARS]!r}, which is wrong or uses look-around"
    # Also refused as the name of a property: where it may be one is too easily got wrong.
    if isinstance(words.get("patternProperties"), Mapping):
        return "uses patternProperties"
    return next(filter(None, map(_pattern_fault, words.values())), None)


def _line(error: Any) -> str:
    place = str(error.json_path)
    shown = "" if place == "$" else f"{place[:_PLACE_MAX_CHARS]}: "
    message = str(error.message)
    if len(message) > 2 * _FAULT_EDGE_CHARS:
        # It begins with the value and ends with what is wrong with it.
        message = f"{message[:_FAULT_EDGE_CHARS]} ... {message[-_FAULT_EDGE_CHARS:]}"
    return f"{shown}{message}"
