"""Which of a tree's events a stream is for. Pure."""

from __future__ import annotations

from retinue.contract import EventType
from retinue.http.streams.log import Entry


class Everything:
    """All runs of the tree."""

    reads_from_start = False

    def admits(self, entry: Entry) -> bool:
        """Whether an entry belongs to it; entries are shown in their order, from the first on."""
        del entry
        return True

    def admits_run(self, run_id: str) -> bool:
        """Whether a run belongs to it, as far as is known."""
        del run_id
        return True


class Subtree:
    """A run and all below it.

    Args:
        path: The run's, numbers from the root down.
    """

    reads_from_start = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._runs: set[str] = set()

    def admits(self, entry: Entry) -> bool:
        """As `Everything.admits`."""
        event = entry.event
        if event is None:
            return True
        if event.type is EventType.RUN_CREATED and str(event.data.get("path", "")).startswith(self._path):
            self._runs.add(event.run_id)
        return event.run_id in self._runs

    def admits_run(self, run_id: str) -> bool:
        """As `Everything.admits_run`."""
        return run_id in self._runs


Selection = Everything | Subtree
