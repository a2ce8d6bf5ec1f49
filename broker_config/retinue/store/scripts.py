"""The Lua scripts beside this package, one file an operation, with their shared parts put in.

A file `_name.lua` is a part; a script takes it in with a line `--!include _name`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from retinue.store.script import Script

_FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^--!include (_\w+)$", re.MULTILINE)


@cache
def script(name: str) -> Script:
    """The script of an operation.

    Args:
        name: The operation, which is the file's name without its ending.

    Raises:
        FileNotFoundError: There is no such operation.
    """
    text = (_FOLDER / f"{name}.lua").read_text()
    return Script.from_text(name, _INCLUDE.sub(lambda part: _part(part[1]), text))


@cache
def _part(name: str) -> str:
    return (_FOLDER / f"{name}.lua").read_text().rstrip("\n")


def operation_names() -> list[str]:
    """Every operation that has a script, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("[!_]*.lua"))
