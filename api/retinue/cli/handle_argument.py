"""How a command line names a run: a handle's JSON, a file of it, standard input, or a bare run id."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import typer

HANDLE_HELP = "The handle: its JSON, @FILE, - for standard input, or a run's bare id."


def read_handle(argument: str) -> str | Mapping[str, Any]:
    """What a handle argument says: a run id, or the mapping of a handle's fields.

    Whether it leads to a run is left to the facade, whose answer for one that does not is UNKNOWN.

    Args:
        argument: JSON, `@file`, `-` or a run id. A document that holds a handle under `handle`, as
            `retinue status --json` prints it, will do.

    Raises:
        typer.BadParameter: it is none of these, or cannot be read.
    """
    from retinue.contract import is_run_id

    text = _text(argument).strip()
    if not text.startswith("{"):
        if is_run_id(text):
            return text
        if text == argument and Path(text).is_file():
            raise typer.BadParameter(f"that is no run's id; to read the file write @{text}")
        raise typer.BadParameter(
            "give a handle's JSON, @FILE (to read a file write @/path), - for standard input, or a run's id, "
            "as in sa-p07-..."
        )
    try:
        value = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"the handle is no JSON ({error})") from None
    found = cast("Mapping[str, Any]", value)
    inner = found.get("handle")
    return cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else found


def _text(argument: str) -> str:
    if argument == "-":
        return sys.stdin.read()
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise typer.BadParameter(f"{argument[1:]} cannot be read: {reason}") from None
