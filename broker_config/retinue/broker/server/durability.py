"""The levels of durability. Apart from the settings, which cost far more to import."""

from __future__ import annotations

from enum import StrEnum


class Durability(StrEnum):
    """How much an acknowledged write may still be lost when the server's machine dies."""

    EVERYSEC = "everysec"
    """The server's append-only file is synced once a second: at most the last second is lost."""
    STRICT = "strict"
    """It is synced with every write (`appendfsync always`), and a replica, if there is one, has the write."""
