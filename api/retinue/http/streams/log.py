"""A reader's place in a tree's log, and what it reads there. Pure: nothing here talks to the store.

Each read overlaps the one before by an entry, so that a log which was purged, has expired or was set back (a
store that lost its last writes) is noticed however fast it has grown again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from retinue.contract import Event, EventType, StoreReplyError
from retinue.http.streams.frames import event_frame, gap_frame
from retinue.store import keys


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at one place of a log.

    Args:
        sequence: The place, from 1 on.
        event: None = this version cannot read it.
        frame: As a stream sends it; a gap where it cannot be read.
    """

    sequence: int
    event: Event | None
    frame: bytes = field(repr=False)

    @classmethod
    def of(cls, sequence: int, raw: bytes) -> Entry:
        """The entry, as the store keeps it."""
        try:
            event = Event.from_json(sequence, raw)
        except StoreReplyError:
            return cls(sequence, None, gap_frame(Gap(sequence, sequence, sequence)))
        return cls(sequence, event, event_frame(event))

    def ends(self, run_id: str) -> bool:
        """Whether it is the end of a run."""
        event = self.event
        return event is not None and event.type is EventType.RUN_FINISHED and event.run_id == run_id


@dataclass(frozen=True, slots=True)
class Gap:
    """Places of a log that hold nothing (any more) of what the reader had, or would have had, there.

    Args:
        first, last: The places, inclusive; no last = the whole log from there on is gone.
        resumes_after: What the reader has now, as `after` counts.
    """

    first: int
    last: int | None
    resumes_after: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one read gave.

    Args:
        gap: Comes before the entries; None = nothing is missing.
        falls_short: The log does not reach to the reader's place (any more): ask for its length.
    """

    entries: Sequence[Entry] = ()
    gap: Gap | None = None
    falls_short: bool = False


class LogCursor:
    """A place in a tree's log.

    Args:
        tenant, root_id: The tree.
        after: The sequence number of the last entry that the reader has; 0 = none.
    """

    def __init__(self, tenant: str, root_id: str, after: int = 0) -> None:
        self._key = keys.tree_events(tenant, root_id)
        self.after = after
        self._identity: object = None

    def copy(self) -> LogCursor:
        """Another reader at the same place."""
        return copy(self)

    def next_read(self, most: int) -> tuple[str | int, ...]:
        """The command that reads on, by at most so many entries."""
        return ("LRANGE", self._key, max(self.after - 1, 0), self.after + most - 1)

    def length(self) -> tuple[str | int, ...]:
        """The command that tells how far the log goes."""
        return ("LLEN", self._key)

    def take(self, reply: Sequence[bytes]) -> Part:
        """Moves on behind what was read."""
        if not reply:
            return Part(falls_short=True)
        if self.after == 0:
            self._identity = None
            return Part(self._read(reply))
        here = _identity(reply[0])
        gap = Gap(self.after, self.after, self.after) if self._identity not in (None, here) else None
        self._identity = here
        return Part(self._read(reply[1:]), gap)

    def follow(self, entry: Entry) -> None:
        """Moves on behind an entry that another reader of the log has read."""
        self.after = entry.sequence
        self._identity = None if entry.event is None else _identity_of(entry.event)

    def fall_back(self, length: int) -> Gap | None:
        """Moves to where the log ends now; None = it does reach to here."""
        if length > 0 and self.after <= length:
            return None
        gap = Gap(length + 1, self.after, length) if length else Gap(self.after + 1, None, self.after)
        self.after, self._identity = min(self.after, length), None
        return gap

    def _read(self, raws: Sequence[bytes]) -> list[Entry]:
        entries = [Entry.of(self.after + n, raw) for n, raw in enumerate(raws, start=1)]
        if entries:
            self.follow(entries[-1])
            self._identity = _identity(raws[-1])
        return entries


def _identity(raw: bytes) -> object:
    """What tells an entry from another one that came to stand in its place; a purge may blank its texts."""
    try:
        entry: dict[str, Any] = json.loads(raw)
        return entry["e"], entry["r"], int(entry["t"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return raw


def _identity_of(event: Event) -> object:
    return event.type.value, event.run_id, round(event.at.timestamp() * 1000)
