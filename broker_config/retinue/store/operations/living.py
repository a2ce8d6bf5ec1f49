"""Reads of what goes on now: the trees of a tenant that have live runs, and those runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from retinue.contract import SubagentState, partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, ScriptCall, text
from retinue.store.record import Record
from retinue.store.scripts import script

RUNS_A_CALL: Final = 100
"""Live runs that one call reads: about a millisecond of the server."""

_FIELDS: Final = (
    *("par", "root", "path", "dp", "st", "ph", "ag", "sess", "q", "own", "tok", "dr", "it", "tin", "tout"),
    *("usd", "unk", "cs", "cr", "na", "dl", "hw"),
)


@dataclass(frozen=True, slots=True)
class LiveTree:
    """A tree that has live runs. `launched_ms`: when its root was."""

    root_id: str
    launched_ms: int


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """A run of such a tree: a live one, or an ended one above it.

    Args:
        run_id: The run.
        record: What a list shows of it.
        under_cancel: It is live, and it or one above it that it follows is to stop.
    """

    run_id: str
    record: Record
    under_cancel: bool

    @property
    def state(self) -> SubagentState:
        return SubagentState.CANCEL_REQUESTED if self.under_cancel else self.record.state


@dataclass(frozen=True, slots=True)
class LivePage:
    """A part of a tree's live runs. `total`: how many there are in all."""

    total: int
    entries: tuple[LiveEntry, ...]


def read_live_trees(tenant: str, partition: int, *, most: int) -> CommandCall[list[LiveTree]]:
    """A tenant's trees with live runs in a partition, the newest first."""

    def parse(reply: Any) -> list[LiveTree]:
        return [LiveTree(text(root), int(float(score))) for root, score in _pairs(reply)]

    key = keys.live_trees(tenant, partition)
    return CommandCall(("ZRANGE", key, 0, most - 1, "REV", "WITHSCORES"), parse)


def count_live_trees(tenant: str, partition: int) -> CommandCall[int]:
    """How many trees of a tenant have live runs in a partition."""
    return CommandCall(("ZCARD", keys.live_trees(tenant, partition)), int)


def read_live_runs(
    tenant: str, root_id: str, *, place: int = 0, most: int = RUNS_A_CALL
) -> ScriptCall[LivePage]:
    """A part of a tree's live runs, each with those above it.

    Args:
        place: How many live runs to pass over.
        most: Live runs to look at.
    """

    def parse(reply: Any) -> LivePage:
        total, *entries = reply
        return LivePage(int(total), tuple(_entry(*entry) for entry in entries))

    prefix = keys.tenant_prefix(tenant, partition_of_run(root_id))
    argv = (prefix, root_id, place, most, *_FIELDS)
    return ScriptCall(script("read_live"), (keys.live_runs(tenant, root_id),), argv, parse)


def _entry(run_id: Any, mark: Any, values: Any) -> LiveEntry:
    fields = {name: text(value) for name, value in zip(_FIELDS, values, strict=True) if value is not None}
    return LiveEntry(text(run_id), Record(fields), text(mark) == "c")


def _pairs(flat: Any) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
