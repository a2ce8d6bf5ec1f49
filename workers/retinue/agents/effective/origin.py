"""Where a value of an effective spec came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Who decided a value, the strongest first."""

    REQUEST = "request"  # the launch
    DECLARATION = "declaration"  # the agent's own, in code or in a document
    SETTINGS = "settings"
    PROVIDER = "provider"  # the provider's section of the settings
    PARENT = "parent"  # the run that delegates
    DEFAULT = "default"  # Retinue's own


@dataclass(frozen=True, slots=True)
class Origin:
    """Who decided a value, and where.

    Args:
        source: who.
        place: the setting's name. "" = the source says it all.
    """

    source: Source
    place: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.place}".rstrip()
