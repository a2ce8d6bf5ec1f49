"""A launch that is known by a seed, so that asking for it again from another process starts nothing twice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchSeed:
    """What the ids of a launch's runs are derived from.

    Args:
        text: Random, kept wherever a repeat may come from, and used for one launch only.
        made_at: Epoch seconds.
        is_repeat: The launch may have happened: its runs are looked for first. They are found for as long as
            their conversation is kept, however the catalogue has changed since.
    """

    text: str
    made_at: float
    is_repeat: bool = False
