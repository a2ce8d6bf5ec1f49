"""Checks of the fields that the declarations share; each names the field, the limit and the mend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, cast

from pydantic import JsonValue

from retinue.contract import (
    AGENT_NAME_MAX_CHARS,
    NAME_MAX_CHARS,
    DeclarationError,
    SubagentLifecycleError,
    canonical_json,
)
from retinue.contract.output_schema import output_schema

_TEMPERATURE_MAX: Final = 2.0
# Members of a model request that the worker sets itself, or that could carry a credential.
_REFUSED_PARAMS: Final = frozenset(
    (
        *("model", "messages", "input", "instructions", "tools", "stream", "n", "store"),
        *("api_key", "authorization", "headers", "extra_headers", "extra_query", "base_url"),
    )
)


def agent_name(value: object) -> str:
    """The name, if it is 1 to 64 printable characters without white space."""
    if not isinstance(value, str) or not value.strip():
        raise DeclarationError("is no name", field="name", mend="give the agent a name, such as researcher")
    if len(value) > AGENT_NAME_MAX_CHARS or not value.isprintable() or any(c.isspace() for c in value):
        raise DeclarationError(
            f"{value!r:.80} is no agent name",
            field="name",
            limit=f"1 to {AGENT_NAME_MAX_CHARS} printable characters without white space",
            mend="use a short name, words joined by _ or -",
        )
    return value


def required_text(field: str, value: object, *, agent: str) -> str:
    """The text, if it is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise DeclarationError(f"of agent {agent!r} is blank", field=field, mend=f"write the {field}")
    return value


def optional_text(field: str, value: object, *, agent: str) -> str | None:
    """None, or a text that is not blank."""
    return None if value is None else required_text(field, value, agent=agent)


def optional_name(field: str, value: object, *, agent: str) -> str | None:
    """None, or the name of a model, provider or queue: never an object."""
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_MAX_CHARS:
        raise DeclarationError(
            f"of agent {agent!r} is a {type(value).__name__}" if not isinstance(value, str) else "is no name",
            field=field,
            limit=f"a name of 1 to {NAME_MAX_CHARS} characters",
            mend=f"give the {field}'s name; URLs and keys belong into the settings, [providers.<name>]",
        )
    return value


def optional_count(field: str, value: object) -> int | None:
    """None, or a whole number from 1 on."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise DeclarationError(
            f"{value!r:.40} is no count", field=field, limit="1 or more", mend="give a whole number"
        )
    return value


def optional_bool(field: str, value: object) -> bool | None:
    """None, or a truth value."""
    if value is not None and not isinstance(value, bool):
        raise DeclarationError(f"{value!r:.40} is no truth value", field=field, mend="give True or False")
    return value


def optional_temperature(value: object) -> float | None:
    """None, or a number from 0 to 2."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DeclarationError(f"{value!r:.40} is no number", field="temperature", mend="give a number")
    if not 0 <= value <= _TEMPERATURE_MAX:
        raise DeclarationError(
            f"{value} is out of range", field="temperature", limit="0 to 2", mend="use a value in range"
        )
    return float(value)


def model_params(value: object, *, field: str = "params") -> dict[str, JsonValue]:
    """A copy of further members of the model request: JSON, none of the worker's own, no credential."""
    if not isinstance(value, Mapping):
        raise DeclarationError("is no mapping", field=field, mend="give names and JSON values")
    params = {
        str(key): cast("JsonValue", item) for key, item in cast("Mapping[object, object]", value).items()
    }
    refused = sorted(name for name in params if name.lower() in _REFUSED_PARAMS)
    if refused:
        raise DeclarationError(
            f"{', '.join(refused)} may not be set here",
            field=field,
            mend="leave them out; URLs, keys and headers belong into the settings",
        )
    try:
        canonical_json(params)
    except (TypeError, ValueError, RecursionError):
        raise DeclarationError("is not JSON", field=field, mend="use JSON values only") from None
    return params


def optional_output_schema(value: object, *, agent: str) -> dict[str, JsonValue] | None:
    """None, or the JSON schema of an object; a pydantic model class becomes its schema."""
    if value is None:
        return None
    try:
        return output_schema("output_schema", value)
    except SubagentLifecycleError as error:
        fault = as_declaration(error, agent=agent)
    raise fault


def as_declaration(error: SubagentLifecycleError, *, agent: str) -> DeclarationError:
    """What is wrong with a launch's field, said of an agent's declaration."""
    return DeclarationError(
        f"of agent {agent!r} {error.message}", field=error.field, limit=error.limit, mend=error.mend
    )
