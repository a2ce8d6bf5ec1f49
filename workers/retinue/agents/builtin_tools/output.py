"""Structured results: the tool with which a model submits one, and whether what it submitted fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, cast

from pydantic import JsonValue

from retinue.agents.tools.arguments import ToolArgumentError, parse_arguments
from retinue.agents.tools.output_validator import faults
from retinue.contract import PAYLOAD_MAX_BYTES, SubagentLifecycleError
from retinue.contract.canonical import json_object

from .roster import DelegationTool

SUBMIT_RESULT: Final = "submit_result"

HOW_TO_END: Final = (
    "End your work by calling submit_result with the result. A text counts only if it is the result's JSON."
)
"""What the system prompt of an agent with an output schema says about it."""

_FENCE: Final = "```"
_bounded: Final = json_object(max_bytes=PAYLOAD_MAX_BYTES)


@dataclass(frozen=True, slots=True)
class FittingOutput:
    """An object that fits its schema.

    Args:
        payload: the object; properties that it leaves out have their defaults.
    """

    payload: dict[str, JsonValue]

    @property
    def text(self) -> str:
        """The object as JSON."""
        return json.dumps(self.payload, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class UnfitOutput:
    """Something that is no result.

    Args:
        problems: what does not fit, for the model; quotes what it wrote.
    """

    problems: tuple[str, ...]


Output = FittingOutput | UnfitOutput


def submit_tool(schema: Mapping[str, JsonValue]) -> DelegationTool:
    """The built-in tool with which a model ends its work."""
    return DelegationTool(
        SUBMIT_RESULT,
        "Submit the result of your work and end it. Call this once, when everything else is done.",
        schema,
    )


def read_submitted(schema: Mapping[str, JsonValue], arguments: str | bytes | None) -> Output:
    """What a call of `submit_result` comes to.

    Args:
        schema: as `output_schema` checked it.
        arguments: as the API hands them over.
    """
    try:
        value = parse_arguments(arguments)
    except ToolArgumentError as error:
        return UnfitOutput((str(error),))
    return check_output(schema, value)


def read_answer(schema: Mapping[str, JsonValue], text: str) -> Output:
    """What a plain text comes to: a result if it is the JSON of one, also within a code fence.

    Args:
        schema: as `output_schema` checked it.
        text: the model's.
    """
    for candidate in (text, _fenced(text)):
        value = None if candidate is None else _object(candidate)
        if value is not None:
            return check_output(schema, value)
    return UnfitOutput(("the answer is a text, and not a JSON object",))


def check_output(schema: Mapping[str, JsonValue], value: Mapping[str, object]) -> Output:
    """What an object comes to.

    Args:
        schema: as `output_schema` checked it.
        value: JSON values.
    """
    try:
        payload = cast("dict[str, JsonValue]", _bounded("result", value))
    except SubagentLifecycleError as error:
        return UnfitOutput((f"it {error.message} (limit: {error.limit})",))
    problems = faults(schema, payload)
    if problems:
        return UnfitOutput(problems)
    whole = {**_defaults(schema), **payload}
    # A default is a note, which need not fit the schema that it stands in.
    return FittingOutput(payload if len(whole) == len(payload) or faults(schema, whole) else whole)


def _defaults(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {
        name: item["default"]
        for name, item in properties.items()
        if isinstance(item, dict) and "default" in item
    }


def _fenced(text: str) -> str | None:
    """What stands between the first fence and the last; None = there are no two."""
    start, end = text.find(_FENCE), text.rfind(_FENCE)
    if start == end:
        return None
    label, _, inside = text[start + len(_FENCE) : end].partition("\n")
    return inside if label.strip().lower() in ("", "json") else None


def _object(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
