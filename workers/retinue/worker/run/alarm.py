"""The alarm of a held run: there may be a cancel mark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm(asyncio.Event):
    """An event that also calls whoever waits for something else as well, without a task to await it."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[], None]] = []

    def set(self) -> None:
        """Raises the alarm; one that is raised already tells the listeners again."""
        super().set()
        for listener in tuple(self._listeners):
            listener()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Calls it at each `set` from now on."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Calls it no more."""
        self._listeners.remove(listener)
