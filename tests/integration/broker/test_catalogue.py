"""The catalogue: who lives, what can be run, and how long a name is remembered."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.integration.broker.watch import Watch

from retinue.broker.catalogue import (
    CACHE_S,
    MOST_TRIMMED,
    REMEMBERED_S,
    AgentEntry,
    AsyncCatalogue,
    Catalogue,
    CatalogueSnapshot,
    WorkerEntry,
    advertise,
    advertise_webhooks,
    read_gone,
    withdraw,
    withdraw_webhooks,
)
from retinue.broker.routes import private_queue
from retinue.store import keys
from retinue.store.connections.sync_link import SyncLink
from retinue.store.store import Store

DAY_S = 24 * 3600.0
WRITER = {
    "name": "writer",
    "description": "Writes.",
    "model": "gpt-5-mini",
    "provider": "openai",
    "queue": "gpu",
    "toolsets": ["handbook"],
    "sub_agents": ["researcher"],
    "inputs": ["topic"],
    "digest": "d",
}
ENTRIES = {"agents": [WRITER], "toolsets": {"handbook": ["search", "read"]}}
WORKER = WorkerEntry("p1", "host", 7, 1.5, ("retinue", "gpu"), "retinue.worker.p1", ("writer",), 500)

Read = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
async def read(request: pytest.FixtureRequest, watch: Watch) -> Any:
    """Reads the catalogue in either colour; always through the same object."""
    if request.param == "async":
        yield AsyncCatalogue(watch.store).snapshot
        return
    link = SyncLink(watch.url)
    catalogue = Catalogue(Store(link))

    async def in_thread(**options: Any) -> CatalogueSnapshot:
        return await asyncio.to_thread(catalogue.snapshot, **options)

    yield in_thread
    link.close()


async def say(watch: Watch, worker: WorkerEntry = WORKER, *, at: float | None = None, **entries: Any) -> None:
    await advertise(watch.link, worker, {**ENTRIES, **entries}, ["openai"], at or time.time())


async def test_what_a_worker_advertises_is_read_back(watch: Watch, read: Read) -> None:
    before = time.time()
    await say(watch)
    watch.renew("p1")

    snapshot = await read()

    assert snapshot.workers == {"p1": WORKER}
    writer = snapshot.agent("writer")
    assert writer.last_seen >= before
    fields = {name: tuple(item) if isinstance(item, list) else item for name, item in WRITER.items()}
    assert writer == AgentEntry(**fields, last_seen=writer.last_seen)
    assert snapshot.toolsets == {"handbook": ("search", "read")}
    assert snapshot.providers == {"openai"}
    assert snapshot.queues == {"retinue", "gpu"}
    assert not snapshot.is_empty


async def test_an_empty_store_has_an_empty_catalogue(watch: Watch, read: Read) -> None:
    snapshot = await read()

    assert snapshot == CatalogueSnapshot({}, {}, {}, frozenset())
    assert snapshot.is_empty
    assert snapshot.agent("writer") is None


async def test_tenants_with_webhooks_are_known_until_they_are_withdrawn_or_nobody_delivers_any_more(
    watch: Watch, read: Read
) -> None:
    now = time.time()
    await watch.store.run(advertise_webhooks(["acme", "rival"], now))
    await watch.store.run(advertise_webhooks(["old"], now - REMEMBERED_S - 1))
    assert (await read()).webhook_tenants == {"acme", "rival"}
    await watch.store.run(withdraw_webhooks("acme"))
    assert (await read(fresh=True)).webhook_tenants == {"rival"}


async def test_only_a_process_with_a_lease_is_a_live_worker(watch: Watch, read: Read) -> None:
    for process in ("p3", "p1", "p2"):
        await watch.worker(process, agents=["writer"] if process != "p2" else ["reader"])
    assert [worker.process for worker in (await read()).capable_workers("writer")] == ["p1", "p3"]

    watch.kill("p3")
    snapshot = await read(fresh=True)

    assert set(snapshot.workers) == {"p1", "p2"}
    assert [worker.process for worker in snapshot.capable_workers("writer")] == ["p1"]
    assert snapshot.capable_workers("nobody") == []


async def test_what_was_read_is_relied_on_for_a_while_unless_asked_anew(
    watch: Watch, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await read()
    await say(watch)
    assert await read() is first
    assert (await read(fresh=True)).agent("writer")

    watch.server.delete(keys.CATALOGUE)
    assert (await read()).agent("writer"), "what was read anew is relied on, too"
    later = time.monotonic() + CACHE_S
    monkeypatch.setattr("retinue.broker.catalogue.time.monotonic", lambda: later)
    assert (await read()).agent("writer") is None


async def test_a_name_is_known_for_thirty_days_after_it_was_last_advertised(watch: Watch, read: Read) -> None:
    now = time.time()
    await say(watch, at=now - REMEMBERED_S + DAY_S / 24)
    snapshot = await read()
    assert snapshot.agent("writer")
    assert snapshot.toolsets
    assert snapshot.providers

    await say(watch, at=now - REMEMBERED_S - 1)
    assert (await read(fresh=True)).is_empty
    assert not (await read()).toolsets
    assert not (await read()).providers

    await say(watch, at=now)
    assert (await read(fresh=True)).agent("writer").last_seen == now


async def test_a_worker_that_leaves_takes_no_name_along(watch: Watch, read: Read) -> None:
    await say(watch)
    watch.renew("p1")
    await withdraw(watch.link, "p1")

    snapshot = await read()

    assert snapshot.workers == {}
    assert snapshot.agent("writer")


async def test_what_a_newer_version_says_beyond_ours_is_passed_over(watch: Watch, read: Read) -> None:
    watch.server.hset(keys.WORKERS, "p1", json.dumps({**_dict(WORKER), "zone": "eu"}))
    watch.renew("p1")
    await say(watch, WorkerEntry("p2", "host", 7, 1.5, (), "q", (), 1), agents=[{**WRITER, "voice": "low"}])
    watch.server.hset(keys.CATALOGUE, "skill:swim", json.dumps({"last_seen": time.time()}))

    snapshot = await read()

    assert snapshot.workers["p1"] == WORKER
    assert snapshot.agent("writer").queue == "gpu"
    assert snapshot.providers == {"openai"}


async def test_an_entry_that_cannot_be_read_hides_no_other(
    watch: Watch, read: Read, caplog: pytest.LogCaptureFixture
) -> None:
    await say(watch)
    unreadable = [b"{", b"[]", b"null", b'"text"', b"\xff", b'{"queues": 7}', b"[" * 5000]
    for number, raw in enumerate(unreadable):
        watch.server.hset(keys.WORKERS, f"odd{number}-{secrets.token_hex(4)}", raw)
        for kind in ("agent", "toolset", "provider"):
            watch.server.hset(keys.CATALOGUE, f"{kind}:odd{number}", raw)
    watch.server.hset(keys.CATALOGUE, "agent:bare", json.dumps({"last_seen": time.time()}))
    watch.server.hset(keys.CATALOGUE, "agent:listless", json.dumps({"last_seen": time.time(), "inputs": 3}))
    watch.server.hset(keys.CATALOGUE, "toolset:bare", json.dumps({"last_seen": time.time()}))
    watch.server.hset(keys.CATALOGUE, "toolset:odd", json.dumps({"last_seen": time.time(), "tools": 3}))
    watch.renew("p1")

    snapshot = await read()
    await read(fresh=True)

    assert snapshot.workers == {"p1": WORKER}
    assert set(snapshot.agents) == {"writer", "bare"}
    assert snapshot.agents["bare"] == AgentEntry("bare", last_seen=snapshot.agents["bare"].last_seen)
    assert snapshot.toolsets == {"handbook": ("search", "read"), "bare": ()}
    assert snapshot.providers == {"openai"}
    said = [message for message in caplog.messages if "name=worker:odd" in message]
    assert len(said) == len(unreadable), "each is told of once"


async def test_of_a_live_worker_whose_entry_cannot_be_read_the_name_is_known(
    watch: Watch, read: Read
) -> None:
    watch.server.hset(keys.WORKERS, "p1", "{")
    watch.server.hset(keys.WORKERS, "p2", json.dumps({"agents": ["writer"], "process": "p9"}))
    watch.renew("p1")
    watch.renew("p2")

    snapshot = await read()

    assert snapshot.workers == {
        "p1": WorkerEntry("p1", private_queue=private_queue("p1")),
        "p2": WorkerEntry("p2", private_queue=private_queue("p2"), agents=("writer",)),
    }
    assert [worker.process for worker in snapshot.capable_workers("writer")] == ["p2"]


async def test_names_that_nobody_says_any_more_are_forgotten_a_few_at_a_time(watch: Watch) -> None:
    now = time.time()
    old = {
        f"agent:old{n}": json.dumps({"last_seen": now - REMEMBERED_S - 1}) for n in range(MOST_TRIMMED + 1)
    }
    watch.server.hset(keys.CATALOGUE, mapping=old)
    watch.server.hset(keys.CATALOGUE, "agent:recent", json.dumps({"last_seen": now - REMEMBERED_S + DAY_S}))
    watch.server.hset(keys.CATALOGUE, "skill:timeless", json.dumps({}))  # of a newer version

    await say(watch)
    assert len([name for name in watch.server.hkeys(keys.CATALOGUE) if name in old]) == 1
    await say(watch)

    ours = {"agent:writer", "toolset:handbook", "provider:openai"}
    assert set(watch.server.hkeys(keys.CATALOGUE)) == ours | {"agent:recent", "skill:timeless"}


async def test_a_process_is_gone_until_it_advertises_again_and_for_an_hour_at_most(watch: Watch) -> None:
    await say(watch)
    await withdraw(watch.link, "p1")
    now = time.time()
    assert await watch.store.run(read_gone(now)) == ["p1"]
    assert await watch.store.run(read_gone(now + 3601)) == []

    await say(watch)
    assert await watch.store.run(read_gone(now)) == []

    watch.server.zadd(keys.GONE, {"old": now - 3601})
    await withdraw(watch.link, "p1")
    assert watch.server.zrange(keys.GONE, 0, -1) == ["p1"], "old ones do not pile up"


def test_readers_do_not_wait_for_each_others_time_outs(valkey_url: str) -> None:
    both_are_in = threading.Barrier(2, timeout=30)

    class Meeting(SyncLink):
        def execute(self, *args: Any) -> Any:
            if args[1] == keys.WORKERS:
                both_are_in.wait()
            return super().execute(*args)

    link = Meeting(valkey_url)
    catalogue = Catalogue(Store(link))
    with ThreadPoolExecutor(2) as threads:
        read = [threads.submit(catalogue.snapshot) for _ in range(2)]
        assert all(one.result(60).is_empty for one in read)
    link.close()


def _dict(worker: WorkerEntry) -> dict[str, Any]:
    return {name: getattr(worker, name) for name in worker.__slots__}
