"""Finds the runs that are live now, over all sessions of a tenant.

There is no list of sessions: a tree that has not ended has a run that is queued, claimed or due, and those
stand in the partitions' indexes, which are read in one pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retinue.contract import PARTITIONS, StoreError
from retinue.store import keys
from retinue.store.call import RunKey, text
from retinue.store.reading import read_status

if TYPE_CHECKING:
    from retinue.store.sync_link import SyncLink

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Indexes:
    """What the partitions' indexes say.

    Args:
        members: `tenant/run` of the runs that are queued, claimed or due.
        queued: runs that wait, by queue.
        claimed: runs that are held, by worker process.
    """

    members: frozenset[str]
    queued: dict[str, int]
    claimed: dict[str, int]


def read_indexes(link: SyncLink, queues: Iterable[str], processes: Iterable[str]) -> Indexes:
    """Reads them all, in one round trip.

    Raises:
        StoreError: the store did not answer.
    """
    commands: list[tuple[str, ...]] = []
    meanings: list[tuple[str, str]] = []
    for partition in range(PARTITIONS):
        commands.append(("ZRANGE", keys.due(partition), "0", "-1"))
        meanings.append(("due", ""))
        for queue in queues:
            commands.append(("ZRANGE", keys.queued(partition, queue), "0", "-1"))
            meanings.append(("queued", queue))
        for process in processes:
            commands.append(("SMEMBERS", keys.owned(partition, process)))
            meanings.append(("claimed", process))
    members: set[str] = set()
    counts: dict[str, dict[str, int]] = {"due": {}, "queued": {}, "claimed": {}}
    for (kind, name), reply in zip(meanings, _replies(link, commands), strict=True):
        found = {text(word) for word in reply}
        members |= found
        counts[kind][name] = counts[kind].get(name, 0) + len(found)
    return Indexes(frozenset(members), counts["queued"], counts["claimed"])


def live_roots(link: SyncLink, tenant: str, indexes: Indexes) -> tuple[str, ...]:
    """The roots of the trees that the indexed runs of a tenant belong to, sorted.

    Raises:
        StoreError: the store did not answer.
    """
    run_ids = [run_id for owner, run_id in map(keys.split_member, indexes.members) if owner == tenant]
    roots: set[str] = set()
    for start in range(0, len(run_ids), _CHUNK):
        calls = [read_status(RunKey(tenant, run_id)) for run_id in run_ids[start : start + _CHUNK]]
        replies = _replies(link, [(call.script, call.keys, call.argv) for call in calls])
        views = (call.parse(reply) for call, reply in zip(calls, replies, strict=True))
        roots |= {view.record.root_id for view in views if view is not None}
    return tuple(sorted(roots))


def _replies(link: SyncLink, commands: Sequence[Any]) -> Sequence[Any]:
    replies = link.pipeline(commands)
    for reply in replies:
        if isinstance(reply, StoreError):
            raise reply
    return replies
