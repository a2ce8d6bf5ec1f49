"""Which part of a log, a list or a set of runs to read next. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from retinue.contract import COUNT_MAX, Event, SubagentLifecycleError, partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.operations.reading import ListedRoots, RunView, list_roots, read_events

T = TypeVar("T")
RUNS_A_READ = 100
"""Runs that are read in one round trip."""


LISTED_A_READ = (50, 500)
"""Fewest and most entries of a list that are looked at in one round trip."""

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


class PageCursor:
    """A page of a session's list, filled although runs that have expired still stand in it.

    Args:
        tenant, session_id: Whose list.
        offset: How many of the newest runs to pass over.
        limit: Longest page.
    """

    def __init__(self, tenant: str, session_id: str, offset: int, limit: int) -> None:
        self._tenant = tenant
        self._session_id = session_id
        self._skip = offset
        self._want = limit
        self._place: int | None = 0

    def next_read(self) -> ScriptCall[ListedRoots] | None:
        """The next part of the list; None = the page is full, or the list at its end."""
        if self._place is None or not self._want:
            return None
        most = min(LISTED_A_READ[1], max(LISTED_A_READ[0], self._skip + self._want))
        return list_roots(self._tenant, self._session_id, place=self._place, most=most)

    def take(self, listed: ListedRoots) -> list[RunKey]:
        """Moves on behind what was read; the runs of it that belong to the page."""
        self._place = listed.next_place
        page = listed.run_ids[self._skip :][: self._want]
        self._skip = max(0, self._skip - len(listed.run_ids))
        self._want -= len(page)
        return [RunKey(self._tenant, run_id) for run_id in page]


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
