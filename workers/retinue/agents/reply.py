"""Reading what a foreign agent returned: a text, an object, or a result object that holds one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Final, cast

from pydantic import BaseModel, JsonValue

from retinue.agents.tools.tool_result import ToolResultError, result_text

# Where agent libraries keep what a finished run came to, in order of preference.
_RESULT_FIELDS: Final = ("final_response", "final_output", "output")
# As likely a part of somebody's own data: asked for only in what is a result already, or no data.
_COMMON_FIELDS: Final = ("text", "content", "structured")


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent answered.

    Args:
        text: never blank.
        payload: the answer as an object. None = it is no object; the text says all.
    """

    text: str
    payload: dict[str, JsonValue] | None = None


def read_reply(value: object) -> Reply:
    """The answer within what `run` returned.

    Args:
        value: a text; a result with `final_response`, `final_output` or `output`, of which the first that is
            not empty counts; a mapping, dataclass or pydantic model, which is an object as it is; something
            else with `text`, `content` or `structured`; or another value with a JSON form.

    Raises:
        ToolResultError: nothing was answered, or it has no JSON form.
    """
    held = value if isinstance(value, str | Mapping) else _held(value)
    if _says_nothing(held):
        raise ToolResultError("the agent answered nothing")
    if isinstance(held, str):
        return Reply(result_text(held))
    try:
        text = result_text(held)
    except ToolResultError:
        raise ToolResultError(
            f"the agent returned a {type(value).__name__} without an answer: return text, an object, or a "
            f"result with {' or '.join(_RESULT_FIELDS)}"
        ) from None
    whole = json.loads(text) if isinstance(held, Mapping | BaseModel) or is_dataclass(held) else None
    return Reply(text, cast("dict[str, JsonValue]", whole) if isinstance(whole, dict) else None)


def _held(value: object) -> object:
    """What a result object holds; the value itself where it is none."""
    fields = _fields(value, _RESULT_FIELDS)
    if fields or not (isinstance(value, BaseModel) or is_dataclass(value)):
        fields += _fields(value, _COMMON_FIELDS)
    return next((item for item in fields if not _says_nothing(item)), None) if fields else value


def _fields(value: object, names: Sequence[str]) -> list[object]:
    found = [getattr(value, name) for name in names if hasattr(value, name)]
    return [item for item in found if not callable(item)]


def _says_nothing(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Mapping) and not value)
