"""Options of the form KEY=VALUE."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer


def key_values(option: str, pairs: Iterable[str]) -> dict[str, Any]:
    """The mapping that repeated `KEY=VALUE` options give.

    Args:
        option: how the option is written, for messages.
        pairs: a value that is JSON is taken as such (`n=3`, `tags=["a"]`, `s="3"`), any other as text.

    Raises:
        typer.BadParameter: a pair has no `=` or no key, or a key stands there twice.
    """
    result: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} {pair!r}: write it as KEY=VALUE")
        if key in result:
            raise typer.BadParameter(f"{option} {key!r} stands there twice")
        result[key] = _value(value)
    return result


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    # NaN and Infinity are no JSON, and plausible words.
    raise ValueError(name)
