"""Arguments of calls whose tool a JSON schema describes, and not its function alone: a document's tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from .arguments import ToolArgumentError, parse_arguments
from .output_validator import faults
from .tool import AnyTool


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
    return {**_defaults(properties), **values}


def declared_arguments(
    parameters: Mapping[str, JsonValue], tool: AnyTool, raw: str | bytes | Mapping[str, object] | None
) -> dict[str, object]:
    """The arguments of a model's call of a function, with the defaults that a document declares for it.

    The function's own stands where the document says no more than that the argument may be left out (null).

    Args:
        parameters: JSON schema of the arguments as the model sees it.
        tool: the function.
        raw: as for `parse_arguments`.

    Raises:
        ToolArgumentError: not a JSON object; what its members are worth, `tool.check` tells.
    """
    values = parse_arguments(raw)
    if parameters is tool.parameters or parameters == tool.parameters:
        return values
    properties = cast("Mapping[str, Mapping[str, JsonValue]]", parameters.get("properties") or {})
    needed = tool.schema.required
    given = {n: default for n, default in _defaults(properties).items() if default is not None or n in needed}
    return {**given, **values}


def _defaults(properties: Mapping[str, Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema}
