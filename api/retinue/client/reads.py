"""Which part of a log, a list or a set of runs to read next. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from retinue.contract import COUNT_MAX, Event, SubagentLifecycleError, partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey
from retinue.store.reading import RunView, read_events

T = TypeVar("T")
RUNS_A_READ = 100
"""Runs that are read in one round trip."""


EVENTS_A_READ = 1000
FOLLOW_EVERY_S = 0.25
"""Between two looks at the log of a run that goes on: a log is not published, only ends are."""


class EventCursor:
    """A place in a tree's log.

    Args:
        tenant: The tree's.
        root_id: The tree.
        after: The sequence number of the last event known; the first has 1.
    """

    def __init__(self, tenant: str, root_id: str, after: int) -> None:
        self._tenant = tenant
        self._root_id = root_id
        self._after = after

    def next_read(self) -> CommandCall[list[Event]]:
        """The next part of the log."""
        return read_events(self._tenant, self._root_id, after=self._after, limit=EVENTS_A_READ)

    def take(self, events: list[Event]) -> list[Event]:
        """Moves on behind what was read."""
        if events:
            self._after = events[-1].sequence
        return events


def checked_place(after: object) -> int:
    """The place in a log from which to read on.

    Raises:
        SubagentLifecycleError: It is no count.
    """
    return _checked_count("after", after, 0, "give the sequence number of the last event that you have, or 0")


def checked_page(offset: object, limit: object) -> tuple[int, int]:
    """The window of a list.

    Raises:
        SubagentLifecycleError: One of them is no count.
    """
    first = _checked_count("offset", offset, 0, "count from the newest one, which is 0")
    return first, _checked_count("limit", limit, 1, "give the page's length")


def _checked_count(field: str, value: object, least: int, mend: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= COUNT_MAX:
        limit = f"a whole number from {least} to {COUNT_MAX:,}"
        raise SubagentLifecycleError("is no such number", field=field, limit=limit, mend=mend)
    return value


def is_over(view: RunView | None) -> bool:
    """Whether there is nothing to wait for any more."""
    return view is None or view.record.is_terminal


def places_of(run_keys: Sequence[RunKey]) -> list[tuple[str, str]]:
    """Where the ends of runs are published: channel and first word of the message."""
    return [(keys.wake_channel(partition_of_run(key.run_id)), key.run_id) for key in run_keys]


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in parts that are read in one round trip each."""
    for start in range(0, len(items), RUNS_A_READ):
        yield items[start : start + RUNS_A_READ]
