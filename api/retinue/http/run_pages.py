"""Pages of runs: where the next one begins, and which runs belong to it.

A list is read in parts until its page is full. How much is looked at for one page is bounded, so a filter
that few runs pass gives short pages, and even empty ones, before the last.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from retinue.contract import (
    COUNT_MAX,
    SubagentLifecycleError,
    SubagentState,
    SubagentStatus,
    is_run_id,
)

PAGE_MAX: Final = 200
PAGE: Final = 50
SCANNED_MAX: Final = 1_000
"""Runs that are looked at for one page."""

_READ: Final = 100


Entry = tuple[str, SubagentStatus | None]
"""A run's id, and how it stands; None = it has expired."""


class Runs(Protocol):
    """A list of runs that can be read in parts."""

    async def read(self, offset: int, count: int, /) -> Sequence[Entry]:
        """The runs from a place on; fewer than `count` only at the end of the list."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs are wanted.

    Args:
        state: In this state. None = in any.
        agent: With this active agent. None = any.
    """

    state: SubagentState | None = None
    agent: str | None = None

    def passes(self, run: SubagentStatus) -> bool:
        """Whether the run is wanted."""
        return self.state in (None, run.state) and self.agent in (None, run.agent)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list.

    Args:
        offset: How many runs are behind it.
        last: The last of them, by which the place is found again where runs were added before it.
    """

    offset: int = 0
    last: str | None = None

    def written(self) -> str:
        """As the caller gets it."""
        return urlsafe_b64encode(json.dumps([self.offset, self.last]).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """The cursor that `written` gave; None = the list's beginning.

        Raises:
            SubagentLifecycleError: It is none.
        """
        if text is None:
            return cls()
        try:
            value = json.loads(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
        except (ValueError, binascii.Error, RecursionError):
            value = None
        match value:
            case [int() as offset, str() as last] if 0 < offset <= COUNT_MAX and is_run_id(last):
                return cls(offset, last)
            case _:
                raise SubagentLifecycleError(
                    "is no cursor of this list",
                    field="cursor",
                    limit="next_cursor of the page before",
                    mend="leave it out to begin anew",
                )


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, and where those after them begin; None = there are none."""

    runs: Sequence[SubagentStatus]
    next_cursor: str | None


async def read_page(runs: Runs, wanted: Filter, *, limit: int, cursor: Cursor) -> Page:
    """The wanted runs behind a place.

    Args:
        limit: Longest page.
    """
    found: list[SubagentStatus] = []
    place, scanned = await _found_again(runs, cursor), 0
    while scanned < SCANNED_MAX:
        count = min(_READ, SCANNED_MAX - scanned)
        part = await runs.read(place.offset, count)
        for run_id, status in part:
            if len(found) == limit:
                return Page(found, place.written())
            place = Cursor(place.offset + 1, run_id)
            if status is not None and wanted.passes(status):
                found.append(status)
        scanned += len(part)
        if len(part) < count:
            return Page(found, None)
    return Page(found, place.written())


async def _found_again(runs: Runs, cursor: Cursor) -> Cursor:
    """The place now: behind the last run that was given, wherever that stands after others were added."""
    if cursor.last is None:
        return cursor
    offset, count = cursor.offset - 1, 1  # where it stands if nothing was added
    while offset < cursor.offset + SCANNED_MAX:
        part = await runs.read(offset, count)
        for at, (run_id, _) in enumerate(part):
            if run_id == cursor.last:
                return Cursor(offset + at + 1, run_id)
        if len(part) < count:
            break
        offset, count = offset + count, _READ
    # It has expired, and with it what stood before it: the list has become shorter, not longer.
    return cursor
