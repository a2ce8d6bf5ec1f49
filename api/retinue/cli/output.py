"""What the commands print: lines for people, or one JSON document for programs.

Texts that a model or a stranger wrote may hold escape sequences, with which a terminal can be made to do
things; every line passes `visible` on its way out.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import typer

from retinue.cli.exits import ExitCode, exit_of_error

if TYPE_CHECKING:
    from retinue.contract import RetinueError

_HARMLESS = frozenset("\n\t")
# Cc: control, Cf: invisible formatting (it can turn the direction of a line), Cs: lone surrogates,
# Zl and Zp: line breaks that are not "\n".
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Without these, emoji and several scripts fall apart; neither moves anything on a terminal.
_JOINERS = frozenset("\u200c\u200d")


def visible(text: str) -> str:
    r"""The text with every control character written out (`\x1b`), newline and tab excepted."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) if _acts(character) else character for character in text)


def _acts(character: str) -> bool:
    if character in _HARMLESS or character in _JOINERS:
        return False
    return unicodedata.category(character) in _ESCAPED_CATEGORIES


def _escape(character: str) -> str:
    return (
        character.encode("ascii", "backslashreplace").decode() if ord(character) > 0x7F else _hex(character)
    )


def _hex(character: str) -> str:
    return f"\\x{ord(character):02x}"


def put(stream: IO[str], line: str) -> None:
    """Prints a line on a stream; what its encoding lacks is replaced, for a traceback helps nobody."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(visible(line).encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def say(line: str = "") -> None:
    """Prints a line on standard output."""
    put(sys.stdout, line)


def note(line: str) -> None:
    """Prints a line on standard error: progress and warnings, which are no part of the answer."""
    put(sys.stderr, line)


def note_unknown() -> None:
    """Says what it means that a handle leads nowhere."""
    note("no such run: expired, forged, or of another tenant or session")


def document(value: object) -> None:
    """Prints one JSON document on standard output, indented for a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    # ASCII escapes: also a lone surrogate and a control character in a text leave as plain JSON.
    sys.stdout.write(json.dumps(value, indent=indent) + "\n")
    sys.stdout.flush()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows under their headings, in columns."""
    cells = [headings, *([visible(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    for row in cells:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def age(seconds: float) -> str:
    """How long ago something was, in one short word: 12s, 5m, 3h07m."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02d}m"


@contextmanager
def reporting(as_json: bool = False) -> Generator[None]:
    """Turns an error that Retinue raised on purpose into its text, or JSON, and its exit code."""
    from retinue.contract import RetinueError

    try:
        yield
    except RetinueError as error:
        if as_json:
            document({"error": error_fields(error)})
        else:
            note(f"retinue: {error}")
        raise typer.Exit(exit_of_error(error)) from None


def problem(message: str, *, mend: str | None = None, as_json: bool = False) -> typer.Exit:
    """Prints what is wrong; to be raised."""
    if as_json:
        document({"error": {"type": "Problem", "message": message, "mend": mend}})
    else:
        note(f"retinue: {message}" + (f". To mend: {mend}." if mend else ""))
    return typer.Exit(ExitCode.PROBLEM)


def error_fields(error: RetinueError) -> Mapping[str, Any]:
    """An error as JSON values: its type, its message without the mend, and its typed fields."""
    fields: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error.args[0] if error.args else ""),
    }
    for name in ("code", "field", "setting", "limit", "mend", "handle"):
        value = getattr(error, name, None)
        if value is not None:
            fields[name] = value.to_dict() if name == "handle" else str(value)
    return fields
