"""Queued runs as they stand in the store, the longest-queued first, page by page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from retinue.broker.catalogue import CatalogueSnapshot
from retinue.broker.links import Pipelines, run_pipeline
from retinue.broker.settings import Settings
from retinue.contract import PARTITIONS, Phase, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey, text


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that waits for a worker.

    Args:
        member: How it stands in the indexes.
        since_ms: When it was queued; epoch milliseconds of the server, as the next.
        not_before_ms: Its back-off: before that, no wake-up of it is sent again.
        agent: Who is to run it; "" = any worker can, as with one that a document came along for.
        was_claimed: Whether it has been on a worker before.
        lacks_worker: Whether it says that no live worker can run it.
    """

    member: str
    since_ms: int
    not_before_ms: int
    agent: str
    was_claimed: bool
    lacks_worker: bool


class Backlog:
    """Pages through queues, so that runs for which nothing can be done do not hide those behind them.

    Args:
        link: The store.
    """

    def __init__(self, link: Pipelines) -> None:
        self._link = link
        self._passed: defaultdict[str, Counter[int]] = defaultdict(Counter)

    async def page(self, queue: str, count: int) -> list[QueuedRun]:
        """The next runs of a queue; after the last one, from the longest-queued on again.

        Args:
            count: Most of them.

        Raises:
            StoreError: The store could not be asked.
        """
        passed = self._passed[queue]
        commands = [
            ("ZRANGE", keys.queued(number, queue), passed[number], passed[number] + count - 1, "WITHSCORES")
            for number in range(PARTITIONS)
        ]
        replies = await run_pipeline(self._link, commands)
        heads = nsmallest(
            count,
            (
                (int(float(score)), number, text(member))
                for number, reply in enumerate(replies)
                for member, score in zip(reply[::2], reply[1::2], strict=True)
            ),
        )
        if len(heads) == count:
            passed.update(number for _, number, _ in heads)
        elif passed.total() and not heads:
            passed.clear()
            return await self.page(queue, count)
        else:
            passed.clear()
        return await self._read([(since, member) for since, _, member in heads])

    async def _read(self, heads: list[tuple[int, str]]) -> list[QueuedRun]:
        records = [RunKey(*keys.split_member(member)).record for _, member in heads]
        replies = await run_pipeline(
            self._link, [("HMGET", record, "ph", "ra", "ag", "st", "doc") for record in records]
        )
        found: list[QueuedRun] = []
        for (since, member), reply in zip(heads, replies, strict=True):
            phase, not_before, agent, state, document = map(text, reply)
            if phase in (Phase.QUEUED, Phase.NO_WORKER):
                claimed = state != SubagentState.PENDING
                lacks = phase == Phase.NO_WORKER
                found.append(
                    QueuedRun(member, since, int(not_before), "" if document else agent, claimed, lacks)
                )
        return found


async def waited_in(link: Pipelines) -> dict[str, list[int]]:
    """The queues that runs wait in, or did not long ago, each with the partitions where.

    Raises:
        StoreError: The store could not be asked.
    """
    replies = await run_pipeline(link, [("SMEMBERS", keys.queues(number)) for number in range(PARTITIONS)])
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, reply in enumerate(replies):
        for queue in reply:
            found[text(queue)].append(number)
    return dict(found)


def known_queues(settings: Settings, snapshot: CatalogueSnapshot, waited: Iterable[str]) -> list[str]:
    """Every queue to look at, sorted.

    Args:
        settings: Of this process: its routes name queues that no worker may serve yet.
        snapshot: What workers advertise.
        waited: The queues that runs wait in: a client may have routes that nobody else knows.
    """
    return sorted({settings.queue, *settings.routes.values(), *snapshot.queues, *waited})
