"""Options whose values are JSON: of the form KEY=VALUE, or in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
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


def json_file(option: str, path: Path) -> Any:
    """The JSON value in a file.

    Args:
        option: how the option is written, for messages.
        path: the file, in UTF-8.

    Raises:
        typer.BadParameter: it cannot be read, or holds no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except OSError as fault:
        problem = f"cannot be read: {fault.strerror or type(fault).__name__}"
    except (ValueError, RecursionError) as fault:
        problem = f"is no JSON: {fault}"
    raise typer.BadParameter(f"{option} {str(path)!r} {problem}")


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    # NaN and Infinity are no JSON, and plausible words.
    raise ValueError(name)
