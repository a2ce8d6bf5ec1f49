"""Turns what a tool returned into the text that the model reads."""

from __future__ import annotations

from typing import Final

from pydantic_core import PydanticSerializationError, to_json

from retinue.contract.errors import RetinueError

_CUT: Final = "\n[cut: the result was longer than {limit} bytes]"


class ToolResultError(RetinueError, TypeError):
    """A tool returned something that has no text form."""


def result_text(value: object, *, max_bytes: int | None = None) -> str:
    """The text of a tool's result: text as it is, everything else as JSON.

    Args:
        value: text, None, JSON values, dataclasses, pydantic models, dates, enums, sets, UUIDs, bytes ...
        max_bytes: longest text, in bytes of UTF-8; a longer one is cut with a visible mark. None = no limit.

    Raises:
        ToolResultError: the value, or one within it, has no JSON form; names its type, never the value.
    """
    # A lone surrogate cannot be sent as UTF-8, and would break the whole conversation.
    text = value.encode("utf-8", "replace").decode() if isinstance(value, str) else _json(value)
    if max_bytes is None or len(text.encode()) <= max_bytes:
        return text
    mark = _CUT.format(limit=max_bytes)
    kept = text.encode()[: max(0, max_bytes - len(mark))].decode("utf-8", "ignore")
    return kept + mark


def _json(value: object) -> str:
    try:
        encoded = to_json(value, bytes_mode="base64", inf_nan_mode="strings", by_alias=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        reason = (
            str(error).splitlines()[0] if isinstance(error, PydanticSerializationError) else "it is circular"
        )
        raise ToolResultError(
            f"a result of type {type(value).__name__} has no JSON form: {reason}. "
            "Return text, JSON values, dataclasses or pydantic models"
        ) from None
    return encoded.decode("utf-8", "replace")
