"""The fenced blocks of a Markdown file, as tests take them out of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PROJECT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path: Path, language: str) -> list[str]:
    """The blocks of that language ("" = none is named), in order."""
    return [text for name, text in _FENCE.findall(path.read_text(encoding="utf-8")) if name == language]


def commands(block: str) -> list[list[str]]:
    """The command lines of a block, split as a shell splits them, without comments."""
    return [words for line in block.splitlines() if (words := shlex.split(line, comments=True))]
