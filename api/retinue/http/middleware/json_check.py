"""What a body must be before anything else looks at it: JSON by the letter, and not nested too deeply."""

from __future__ import annotations

from typing import Any, Final, cast

from pydantic_core import from_json

from retinue.http.problems import Problem

_PARSER_LIMIT_TEXT: Final = "recursion limit exceeded"


def check_json(body: bytes, max_depth: int) -> None:
    """Refuses what is no JSON in UTF-8, NaN, infinities and lone surrogates included.

    Args:
        body: The whole of it.
        max_depth: Of arrays and objects within each other; at most 128, which the parser itself can do.

    Raises:
        Problem: MALFORMED_JSON or JSON_TOO_DEEP. Its text holds nothing of the body.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        if _PARSER_LIMIT_TEXT in str(error):
            raise _too_deep(max_depth) from None
        raise Problem(
            "MALFORMED_JSON",
            400,
            f"the body is no JSON: {error}",
            limit="RFC 8259, in UTF-8, without NaN, Infinity and lone surrogates",
        ) from None
    if depth_of(value, max_depth) > max_depth:
        raise _too_deep(max_depth)


def depth_of(value: object, enough: int) -> int:
    """How deeply arrays and objects stand within each other; counting ends one above `enough`."""
    level: list[Any] = [value] if isinstance(value, list | dict) else []
    depth = 0
    while level and depth <= enough:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (cast("dict[str, Any]", outer).values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
    return depth


def _too_deep(max_depth: int) -> Problem:
    return Problem(
        "JSON_TOO_DEEP", 400, "the body is nested too deeply", limit=f"{max_depth} arrays and objects"
    )
