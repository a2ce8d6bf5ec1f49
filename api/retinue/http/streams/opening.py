"""From a run in a request to its stream, or to a page of its events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from retinue.http.access import unknown_run
from retinue.http.problems import Problem
from retinue.http.streams.access_watch import AccessWatch
from retinue.http.streams.hub import StreamHub
from retinue.http.streams.log import Entry, Gap, LogCursor
from retinue.http.streams.passing import PassingNews
from retinue.http.streams.stream import RunStream, StreamedRun
from retinue.http.streams.subtree import Everything, Selection, Subtree
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import reading
from retinue.store.store import AsyncStore

if TYPE_CHECKING:
    from retinue.http.service import Service

_SCAN: Final = 200
_ROOT_PATH: Final = "0/"
_FULL_RETRY_S: Final = 5


@dataclass(frozen=True, slots=True)
class EventPage:
    """A part of a log.

    Args:
        entries: In order.
        gaps: What is missing before or among them.
        after: Where to read on.
    """

    entries: list[Entry] = field(default_factory=list[Entry])
    gaps: list[Gap] = field(default_factory=list[Gap])
    after: int = 0


@asynccontextmanager
async def streams_part(service: Service) -> AsyncGenerator[None]:
    """Keeps the process's hub, which ends all streams as soon as the process is told to end."""
    news = PassingNews(service.settings, lambda: service.connections().store)
    hub = StreamHub(lambda: service.connections().link, news, most=service.settings.http.max_streams)
    service.hub = hub
    service.access_watch = AccessWatch(lambda: service.connections().store)

    async def stop_in_time() -> None:
        await service.stopping.wait()
        hub.stop()

    stopping = asyncio.get_running_loop().create_task(stop_in_time())
    try:
        yield
    finally:
        stopping.cancel()
        await service.access_watch.close()
        await hub.close()


async def open_stream(
    service: Service, key: RunKey, *, after: int, whole_tree: bool, takes_news: bool
) -> RunStream | None:
    """The stream of a run from a place on; None = nothing of it is left to be sent.

    Raises:
        Problem: There is no such run, or no room for one more stream.
        StoreError: The store does not answer.
    """
    _require_room(service.hub)
    store, settings = service.connections().store, service.settings.http
    view = await store.run(reading.read_status(key))
    if view is None:
        raise unknown_run()
    record, state, end = view.record, None, None
    if record.is_terminal:
        state = record.state.value
        end, length = await _find_end(service, key, record.root_id) if after else (None, 0)
        if end is not None and end <= after <= length:
            return None
    _require_room(service.hub)
    return RunStream(
        service.hub,
        AsyncStore(service.connections().link),
        StreamedRun(key, record.root_id, state, end),
        after=after,
        selection=_selection(record.path, whole_tree=whole_tree),
        keep_alive_s=settings.stream_keep_alive_seconds,
        takes_news=takes_news and state is None,
    )


async def read_page(service: Service, key: RunKey, *, after: int, limit: int, whole_tree: bool) -> EventPage:
    """A part of the log of a run's tree.

    Raises:
        Problem: There is no such run.
        StoreError: The store does not answer.
    """
    view = await service.connections().store.run(reading.read_status(key))
    if view is None:
        raise unknown_run()
    selection = _selection(view.record.path, whole_tree=whole_tree)
    cursor = LogCursor(key.tenant, view.record.root_id, 0 if selection.reads_from_start else after)
    entries: list[Entry] = []
    gaps: list[Gap] = []
    # What is sought among others' entries is read in larger parts.
    most = max(limit, _SCAN) if selection.reads_from_start else limit
    while True:
        part = await service.hub.read(cursor, most)
        if part.gap is not None:
            gaps.append(part.gap)
            after = min(after, part.gap.resumes_after)
            if part.gap.last is None:
                break
        for entry in part.entries:
            if selection.admits(entry) and entry.sequence > after and len(entries) < limit:
                after = entry.sequence
                if entry.event is None:
                    gaps.append(Gap(after, after, after))
                else:
                    entries.append(entry)
        if len(entries) == limit:
            break
        if len(part.entries) < most and not part.gap and not part.falls_short:
            if after > cursor.after:
                gaps.append(Gap(cursor.after + 1, after, cursor.after))
            after = cursor.after
            break
    return EventPage(entries, gaps, after)


def _selection(path: str, *, whole_tree: bool) -> Selection:
    return Everything() if whole_tree or path == _ROOT_PATH else Subtree(path)


def _require_room(hub: StreamHub) -> None:
    if not hub.has_room:
        raise Problem(
            "TOO_MANY_STREAMS",
            503,
            "this process has no room for another event stream",
            mend="try again later or elsewhere, or read /v1/runs/{run_id}/events page by page",
            headers={"Retry-After": str(_FULL_RETRY_S)},
        )


async def _find_end(service: Service, key: RunKey, root_id: str) -> tuple[int | None, int]:
    """Where in the log a run's end stands (None = nowhere), and how far the log goes.

    It is looked for from the log's end on: behind it stand at most the ends of what outlived the run.
    """
    link, log = service.connections().link, keys.tree_events(key.tenant, root_id)
    length: int = await link.execute("LLEN", log)
    upto = length
    while upto > 0:
        start = max(0, upto - _SCAN)
        raws: list[bytes] = await link.execute("LRANGE", log, start, upto - 1)
        for place, raw in zip(range(start + len(raws), start, -1), reversed(raws), strict=True):
            # Only what names the run is worth reading.
            if key.run_id.encode() in raw and Entry.of(place, raw).ends(key.run_id):
                return place, length
        upto = start
    return None, length
