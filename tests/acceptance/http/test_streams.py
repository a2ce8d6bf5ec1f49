"""Event streams over HTTP, from API processes that die, stop and lose their store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing, contextmanager

import pytest
from tests.acceptance.http.http_rig import ApiProcess, HttpRig, http_rig
from tests.acceptance.http.raw_streams import (
    RawClients,
    RawStream,
    allow_many_files,
    connections_to,
    resident_bytes,
)
from tests.integration.client.store_worker import StoreWorker

from retinue.store import keys
from retinue.store.operations.api_keys import ShownKey, revoke_key

DEADLINE_S = 90.0
MANY = 1_000


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """A store that survives its restart, and no worker: the tests move the runs on themselves."""
    with http_rig(tmp_path_factory.mktemp("streams"), agents="echo_agents", appendonly=True) as made:
        yield made


@pytest.fixture(scope="module")
def api(rig: HttpRig) -> ApiProcess:
    """For the tests that leave it as it is."""
    return rig.api()


@pytest.fixture
def worker(rig: HttpRig, api: ApiProcess) -> Iterator[StoreWorker]:
    """Takes the runs that tests launch over `api` through their states."""
    made = StoreWorker(rig.rig.server.url)
    made.advertise("support")
    yield made
    made.close()


@pytest.fixture
async def clients(rig: HttpRig) -> AsyncIterator[RawClients]:
    async with RawClients(rig.key()) as made:
        yield made


@contextmanager
def _own_api(rig: HttpRig, **settings: object) -> Generator[ApiProcess]:
    """A process of the test's own."""
    with closing(rig.api(**settings)) as made:
        yield made


def _launch(rig: HttpRig, count: int = 1) -> list[str]:
    """Launches runs over the first API process."""
    http = rig.http()
    runs: list[str] = []
    while len(runs) < count:
        requests = [{"agent": "support", "goal": f"help {n}"} for n in range(min(100, count - len(runs)))]
        answer = http.post("/v1/runs/batch", json={"session_id": "streams", "requests": requests})
        assert answer.status_code == 201, answer.text
        runs += [run["run_id"] for run in answer.json()["runs"]]
    http.close()
    return runs


def _append(worker: StoreWorker, run_id: str, count: int, *, bytes_each: int = 0) -> None:
    """Makes a run's log longer."""
    log, text = keys.tree_events("_", run_id), "x" * bytes_each
    for start in range(0, count, 500):
        entries = [
            json.dumps(
                {"e": "steer.missed", "r": run_id, "t": 1_798_761_600_000, "steer": f"s{n}", "text": text}
            )
            for n in range(start, min(count, start + 500))
        ]
        worker.link.execute("RPUSH", log, *entries)


async def test_the_answer_is_a_stream_that_no_proxy_holds_back(
    rig: HttpRig, api: ApiProcess, worker: StoreWorker, clients: RawClients
) -> None:
    (run,) = _launch(rig)
    async with asyncio.timeout(DEADLINE_S):
        stream = await clients.open(api.port, run)
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert (stream.headers["cache-control"], stream.headers["x-accel-buffering"]) == ("no-store", "no")
        worker.complete(run)
        reader = await stream.until_over()
        assert stream.is_whole
        assert (reader.sequences(), reader.retry_ms) == ([1, 2, 3, 4, 5], 2_000)
        over = await clients.open(api.port, run, last_event_id=5)
        assert over.status == 204


async def test_a_key_that_is_revoked_loses_its_streams_and_gets_no_other(
    rig: HttpRig, api: ApiProcess, worker: StoreWorker, clients: RawClients
) -> None:
    (run,) = _launch(rig)
    key = rig.key()
    async with asyncio.timeout(DEADLINE_S), RawClients(key) as revoked:
        cut, kept = await revoked.open(api.port, run), await clients.open(api.port, run)
        await cut.until("run.created")
        worker.store.run(revoke_key(ShownKey.of(key).key_id))
        reader = await cut.until_over()
        assert cut.is_whole
        assert (await revoked.open(api.port, run, last_event_id=reader.sequences()[-1])).status == 401
        worker.complete(run)
        assert "run.finished" in (await kept.until_over()).kinds()
    assert "run.finished" not in reader.kinds()


def test_a_stream_too_many_is_refused_for_now(rig: HttpRig, worker: StoreWorker) -> None:
    (run,) = _launch(rig)
    with _own_api(rig, http__max_streams=0) as full, rig.http(api=full) as http:
        refused = http.get(f"/v1/runs/{run}/events/stream")
        assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_STREAMS")
        assert int(refused.headers["retry-after"]) > 0
        assert http.get(f"/v1/runs/{run}/events").status_code == 200


def test_refusals_are_problems(rig: HttpRig, api: ApiProcess, worker: StoreWorker) -> None:
    http = rig.http(api=api)
    (run,) = _launch(rig)
    path = f"/v1/runs/{run}/events/stream"
    for headers in ({"Last-Event-ID": "x"}, {"Last-Event-ID": "-1"}, {"Last-Event-ID": "9" * 5_000}):
        bad = http.get(path, headers=headers)
        assert (bad.status_code, bad.json()["field"]) == (422, "Last-Event-ID"), headers
    for query in (
        {"after": -1},
        {"after": "x"},
        {"after": "9" * 5_000},
        {"scope": "all"},
        {"deltas": "maybe"},
    ):
        assert http.get(path, params=query).status_code == 422, query
    for unknown in ("sa-p07-" + "a" * 26, "nonsense"):
        gone = http.get(f"/v1/runs/{unknown}/events/stream")
        assert (gone.status_code, gone.json()["code"]) == (404, "UNKNOWN_HANDLE")
        assert http.get(f"/v1/runs/{unknown}/events").status_code == 404
    foreign = rig.http(rig.key("acme"), api=api)
    assert foreign.get(path).json()["code"] == "UNKNOWN_HANDLE"
    page = http.get(f"/v1/runs/{run}/events", params={"limit": 1}).json()
    assert ([event["sequence"] for event in page["events"]], page["gaps"], page["next_after"]) == ([1], [], 1)
    assert http.get(f"/v1/runs/{run}/events", params={"limit": 201}).status_code == 422


@pytest.mark.timeout(300)
async def test_each_event_comes_once_though_the_server_dies_in_the_midst_of_the_run(
    rig: HttpRig, worker: StoreWorker, clients: RawClients
) -> None:
    (run,) = _launch(rig)
    _append(worker, run, 700)
    seen: list[int] = []
    with _own_api(rig) as api:
        async with asyncio.timeout(3 * DEADLINE_S):
            for _ in range(2):
                stream = await clients.open(api.port, run, last_event_id=seen[-1] if seen else None)
                while len(stream.reader.sequences()) < 200:
                    assert await stream.read_on()
                await asyncio.to_thread(api.kill)
                reader = await stream.until_over()
                assert not stream.is_whole
                seen += reader.sequences()
                _append(worker, run, 100)
                await asyncio.to_thread(api.start_again)
            worker.complete(run)
            last = await clients.open(api.port, run, query=f"?after={seen[-1]}")
            seen += (await last.until_over()).sequences()
    assert seen == list(range(1, 906))
    assert last.reader.kinds()[-1] == "run.finished"


async def test_a_server_that_is_told_to_stop_ends_its_streams_behind_a_whole_event(
    rig: HttpRig, api: ApiProcess, worker: StoreWorker, clients: RawClients
) -> None:
    (run,) = _launch(rig)
    async with asyncio.timeout(DEADLINE_S):
        with _own_api(rig) as stopped:
            stream = await clients.open(stopped.port, run)
            await stream.until("run.created")
            stopped.process.terminate()
            reader = await stream.until_over()
            assert stream.is_whole
            await asyncio.to_thread(stopped.process.wait, DEADLINE_S)
        worker.complete(run)
        rest = await clients.open(api.port, run, last_event_id=reader.events[-1].id)
        assert (await rest.until_over()).sequences() == [2, 3, 4, 5]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("trees", [MANY, 1])
async def test_a_thousand_streams_need_few_connections_to_the_store(
    rig: HttpRig, api: ApiProcess, worker: StoreWorker, clients: RawClients, trees: int
) -> None:
    allow_many_files()
    runs = _launch(rig, trees)
    store_port = rig.rig.server.port
    async with asyncio.timeout(3 * DEADLINE_S):
        streams: list[RawStream] = []
        for start in range(0, MANY, 100):
            opening = [clients.open(api.port, runs[n % trees]) for n in range(start, start + 100)]
            streams += await asyncio.gather(*opening)
        assert {stream.status for stream in streams} == {200}
        await asyncio.gather(*(stream.until("run.created") for stream in streams))
        assert connections_to(api.process.pid, store_port) <= 8
        for run in runs:
            worker.complete(run)
        readers = await asyncio.gather(*(stream.until_over() for stream in streams))
        assert connections_to(api.process.pid, store_port) <= 8
    assert all(stream.is_whole for stream in streams)
    assert {tuple(reader.sequences()) for reader in readers} == {(1, 2, 3, 4, 5)}
    for n, reader in enumerate(readers):
        assert {sent.data["run_id"] for sent in reader.events} == {runs[n % trees]}


@pytest.mark.timeout(200)
async def test_clients_that_read_nothing_cost_little_and_are_dropped(
    rig: HttpRig, worker: StoreWorker, clients: RawClients
) -> None:
    long, short = _launch(rig, 2)
    _append(worker, long, 20_000, bytes_each=2_000)
    with _own_api(rig, http__stream_send_timeout_seconds=3) as api:
        async with asyncio.timeout(2 * DEADLINE_S):
            other = await clients.open(api.port, short)
            await other.until("run.created")
            before = resident_bytes(api.process.pid)
            # Each would be sent 42 MB.
            stuck = [await clients.ask(api.port, long) for _ in range(20)]
            for each in stuck:
                each.read_nothing()
            await asyncio.to_thread(
                api.process.wait_for_log,
                r"streams\.dropped run=\S+ reason=slow",
                timeout_s=DEADLINE_S,
                count=len(stuck),
            )
            assert resident_bytes(api.process.pid) - before < 60 * 2**20
            worker.complete(short)
            assert (await other.until_over()).sequences() == [1, 2, 3, 4, 5]
            for each in stuck:
                await each.close()
            reading = await clients.open(api.port, long)
            worker.complete(long)
            assert (await reading.until_over()).sequences() == list(range(1, 20_006))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_stream_outlives_its_store_without_loss(
    rig: HttpRig, worker: StoreWorker, clients: RawClients, how: str
) -> None:
    server = rig.rig.server
    (run,) = _launch(rig)
    with _own_api(rig, http__stream_keep_alive_seconds=0.5) as api:
        async with asyncio.timeout(2 * DEADLINE_S):
            stream = await clients.open(api.port, run)
            await stream.until("run.created")
            # On the disk before the server goes: everysec would lose a second.
            worker.link.execute("CONFIG", "SET", "appendfsync", "always")
            fence = worker.claim(run)
            if how == "killed":
                await asyncio.to_thread(server.kill)
            else:
                server.pause()
            comments = stream.reader.comments
            while stream.reader.comments < comments + 6:
                assert await stream.read_on()
            if how == "killed":
                await asyncio.to_thread(server.start)
            else:
                server.resume()
            worker.record(run, fence, worker.boundary(run, fence))
            worker.finish(run, fence)
            reader = await stream.until_over()
    assert stream.is_whole
    assert reader.sequences() == [1, 2, 3, 4, 5]
    assert "gap" not in reader.kinds()
