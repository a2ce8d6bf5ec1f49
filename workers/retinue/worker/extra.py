"""What only the extra `worker` installs, looked for before anything imports it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Final

from retinue.contract import SettingsError

PACKAGES: Final = ("openai", "aiohttp", "httpx2", "genai_prices", "jsonschema")
"""What a worker and the scripted model server import; pyagentspec is needed for Agent Spec agents alone."""

MEND: Final = "pip install 'retinue[worker]'"


def missing_packages(packages: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """Those that are not installed; nothing is imported to find out."""
    return tuple(name for name in packages if importlib.util.find_spec(name) is None)


def require_extra(who: str, packages: Iterable[str] = PACKAGES) -> None:
    """Refuse to go on without the extra.

    Args:
        who: What needs it, as the beginning of the sentence ("the worker").
        packages: Those that it imports.

    Raises:
        SettingsError: A package is missing; names it and the mend.
    """
    missing = missing_packages(packages)
    if missing:
        raise SettingsError(f"{who} needs {what_is_missing(missing)}", mend=MEND)


def what_is_missing(missing: Iterable[str]) -> str:
    """The end of a sentence: "openai, aiohttp, which are not installed"."""
    names = list(missing)
    return f"{', '.join(names)}, which {'is' if len(names) == 1 else 'are'} not installed"
