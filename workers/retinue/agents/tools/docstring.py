"""What a docstring says about a function and its parameters (Google and Sphinx style)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Example|Examples|Note|Notes):\s*$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r"^:(param|type|returns?|rtype|raises?)\b")
_GOOGLE = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def read_docstring(function: Callable[..., object], names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the text of each parameter that has one.

    Args:
        function: whose docstring is read.
        names: the parameters to look for.
    """
    known = frozenset(names)
    lines = (inspect.getdoc(function) or "").splitlines()
    start = next(
        (i for i, line in enumerate(lines) if _SECTION.match(line) or _FIELD.match(line)), len(lines)
    )
    summary = "\n".join(lines[:start]).strip()
    return summary, _parameters(lines[start:], known)


def _parameters(lines: list[str], known: frozenset[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current: str | None = None
    within = False
    indent = 0
    for line in lines:
        stripped = line.strip()
        sphinx = _SPHINX.match(stripped)
        section = _SECTION.match(line)
        if section or _FIELD.match(stripped):
            within = section is not None and section[1] in ("Args", "Arguments", "Parameters")
            current, indent = None, 0
            if sphinx and sphinx[1] in known:
                current = str(sphinx[1])
                texts[current] = [sphinx[2]]
            continue
        depth = len(line) - len(line.lstrip())
        entry = _GOOGLE.match(stripped) if within and depth <= (indent or depth) else None
        if entry and entry[1] in known:
            current, indent = str(entry[1]), depth
            texts[current] = [entry[2]]
        elif current is not None and stripped:
            texts[current].append(stripped)
    return {name: " ".join(parts).strip() for name, parts in texts.items() if any(parts)}
