"""What goes on now, over all sessions of a tenant: every tree that has live runs, and those runs.

Pure but for the two faces at its end, which ask in as few round trips as the size of the answer takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from retinue.broker.catalogue import WorkerEntry, read_workers
from retinue.broker.links import checked_replies, run_pipeline
from retinue.client.reading.live_run import LiveRun, LiveRuns, shown_run
from retinue.contract import PARTITIONS
from retinue.store.call import CommandCall, ScriptCall
from retinue.store.operations.living import (
    RUNS_A_CALL,
    LiveEntry,
    LivePage,
    LiveTree,
    count_live_trees,
    read_live_runs,
    read_live_trees,
)

if TYPE_CHECKING:
    from retinue.client.dispatch.async_connections import AsyncConnections
    from retinue.store.connections.sync_link import SyncLink

MOST_RUNS: Final = 2_000
"""Live runs that one answer tells of."""

_CALLS_A_READ: Final = 200
"""Calls that are sent in one round trip."""


@dataclass(frozen=True, slots=True)
class LiveTrees:
    """Trees with live runs. `total`: how many there are, those that are not among the newest included."""

    newest: tuple[LiveTree, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TreeReads:
    """What asks for the newest trees of each partition, and how many there are; for one round trip."""

    newest: list[CommandCall[list[LiveTree]]]
    counts: list[CommandCall[int]]

    @property
    def commands(self) -> list[tuple[Any, ...]]:
        """What to send."""
        return [call.command for call in (*self.newest, *self.counts)]

    def answered(self, replies: Sequence[Any]) -> LiveTrees:
        """What was answered."""
        lists, counts = replies[: len(self.newest)], replies[len(self.newest) :]
        found = [call.parse(reply) for call, reply in zip(self.newest, lists, strict=True)]
        total = sum(call.parse(reply) for call, reply in zip(self.counts, counts, strict=True))
        return LiveTrees(tuple(tree for part in found for tree in part), total)


class LiveCursor:
    """Which part of what goes on to read next.

    Args:
        tenant: Whose runs.
        most: Most live runs to tell of.
    """

    def __init__(self, tenant: str, most: int) -> None:
        self._tenant = tenant
        self._most = most
        self._trees: list[LiveTree] = []
        self._first = 0
        self._rest: list[tuple[str, int]] = []
        self._asked: list[str] = []
        self._entries: dict[str, dict[str, LiveEntry]] = {}
        self._totals: dict[str, int] = {}
        self._unlisted = 0

    def tree_reads(self) -> TreeReads:
        """What to ask first."""
        numbers = range(PARTITIONS)
        return TreeReads(
            [read_live_trees(self._tenant, number, most=self._most) for number in numbers],
            [count_live_trees(self._tenant, number) for number in numbers],
        )

    def take_trees(self, found: LiveTrees) -> None:
        """Notes the trees."""
        self._trees = sorted(found.newest, key=lambda tree: (-tree.launched_ms, tree.root_id))
        self._unlisted = max(0, found.total - len(self._trees))

    def roots(self, most: int) -> tuple[tuple[str, ...], int]:
        """The roots of the newest trees, and how many others there are."""
        roots = tuple(tree.root_id for tree in self._trees[:most])
        return roots, len(self._trees) - len(roots) + self._unlisted

    def next_reads(self) -> list[ScriptCall[LivePage]]:
        """What to ask next; nothing = all is known that is to be told."""
        if self._rest:
            pages, self._rest = self._rest[:_CALLS_A_READ], self._rest[_CALLS_A_READ:]
        else:
            room = min(_CALLS_A_READ, self._room)
            chosen = self._trees[self._first : self._first + room]
            self._first += len(chosen)
            pages = [(tree.root_id, 0) for tree in chosen]
        self._asked = [root_id for root_id, _ in pages]
        return [
            read_live_runs(self._tenant, root_id, place=place, most=min(RUNS_A_CALL, self._most))
            for root_id, place in pages
        ]

    def take(self, pages: Sequence[LivePage]) -> None:
        """Notes what was read."""
        for root_id, page in zip(self._asked, pages, strict=True):
            known = self._entries.setdefault(root_id, {})
            known |= {entry.run_id: entry for entry in page.entries}
            if root_id not in self._totals:
                room = min(page.total, self._room)
                self._totals[root_id] = page.total
                self._rest += [(root_id, place) for place in range(RUNS_A_CALL, room, RUNS_A_CALL)]

    def found(self, workers: Mapping[str, WorkerEntry]) -> LiveRuns:
        """The answer.

        Args:
            workers: Those that there are, by process.
        """
        shown: list[LiveRun] = []
        live = 0
        for root_id in self._totals:
            entries = sorted(self._entries[root_id].values(), key=lambda entry: _place(entry.record.path))
            going_on = [entry for entry in entries if not entry.record.is_terminal]
            kept = {entry.run_id for entry in islice(going_on, self._most - live)}
            live += len(kept)
            shown += [shown_run(entry, workers) for entry in _hanging_together(entries, kept)]
        unseen = len(self._trees) - len(self._totals) + self._unlisted
        return LiveRuns(tuple(shown), max(0, sum(self._totals.values()) - live) + unseen)

    @property
    def _room(self) -> int:
        return max(0, self._most - sum(self._totals.values()))


def _hanging_together(entries: Sequence[LiveEntry], kept: set[str]) -> list[LiveEntry]:
    """Those that are kept, and the ended ones above them."""
    by_id = {entry.run_id: entry for entry in entries}
    needed: set[str] = set()
    for run_id in kept:
        above: str | None = run_id
        while above in by_id and above not in needed:
            needed.add(above)
            above = by_id[above].record.parent_id
    return [entry for entry in entries if entry.run_id in needed]


def _place(path: str) -> tuple[int, ...]:
    return tuple(int(number) for number in path.split("/") if number)


def live_roots(link: SyncLink, tenant: str, *, most: int) -> tuple[tuple[str, ...], int]:
    """The roots of the trees that have live runs, the newest first, and how many more there are.

    Args:
        link: The store.
        tenant: Whose.
        most: Longest list.

    Raises:
        StoreError: The store did not answer.
    """
    cursor = LiveCursor(tenant, most)
    calls = cursor.tree_reads()
    cursor.take_trees(calls.answered(checked_replies(link.pipeline(calls.commands))))
    return cursor.roots(most)


async def read_live(connections: AsyncConnections, tenant: str, *, most: int = MOST_RUNS) -> LiveRuns:
    """What goes on now in a tenant.

    Args:
        connections: Of the running loop.
        tenant: Whose runs.
        most: Most live runs to tell of.

    Raises:
        RetinueError: The store did not answer.
    """
    cursor = LiveCursor(tenant, most)
    calls, workers = cursor.tree_reads(), read_workers()
    *replies, entries = await run_pipeline(connections.link, [*calls.commands, workers.command])
    cursor.take_trees(calls.answered(replies))
    while reads := cursor.next_reads():
        cursor.take(await connections.store.run_all(reads))
    return cursor.found(workers.parse(entries))
