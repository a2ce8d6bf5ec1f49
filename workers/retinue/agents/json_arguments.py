"""Reads the arguments of a call whose tool is no function here: a JSON schema is all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from .arguments import ToolArgumentError, parse_arguments
from .output_validator import faults


def json_arguments(
    parameters: Mapping[str, JsonValue], raw: str | bytes | Mapping[str, object] | None
) -> dict[str, JsonValue]:
    """The arguments of a model's call, with the defaults of those that it left out.

    Args:
        parameters: JSON schema of the arguments, as `check_is_schema` accepts it.
        raw: as for `parse_arguments`.

    Raises:
        ToolArgumentError: with a text that tells the model what to send instead.
    """
    values = cast("dict[str, JsonValue]", parse_arguments(raw))
    found = faults(parameters, values)
    properties = cast("Mapping[str, Mapping[str, JsonValue]]", parameters.get("properties") or {})
    if found:
        allowed = ", ".join(properties) or "none"
        raise ToolArgumentError(f"The call was not run: {'; '.join(found)}. Arguments: {allowed}.")
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    return {**defaults, **values}
