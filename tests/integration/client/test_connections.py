"""How many connections a process needs, and whose they are."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.client.patience import wait_until
from tests.integration.client.store_worker import StoreWorker

from retinue.broker.settings import Settings
from retinue.client import AsyncSubagentLifecycle, ErrorCode, SubagentLifecycle, SubagentLifecycleError
from retinue.testing.servers import PrivateServer

WAITERS = 1_000


@pytest.fixture
def settings(valkey_url: str) -> Settings:
    return Settings.read(store_url=valkey_url)


@pytest.fixture
def worker(valkey_url: str) -> Iterator[StoreWorker]:
    made = StoreWorker(valkey_url)
    made.advertise("support")
    yield made
    made.close()


@pytest.fixture
def lifecycle(settings: Settings, worker: StoreWorker) -> Iterator[SubagentLifecycle]:
    made = SubagentLifecycle("customer-42", settings=settings)
    yield made
    made.close()


def client_connections(admin: Any) -> list[dict[str, str]]:
    return [entry for entry in admin.client_list() if entry["name"].startswith("retinue-client")]


def scripts_run(admin: Any) -> int:
    stats = admin.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def test_a_thousand_threads_wait_on_few_connections(
    lifecycle: SubagentLifecycle, worker: StoreWorker, valkey_server: PrivateServer
) -> None:
    handles = [
        handle
        for _ in range(WAITERS // 100)
        for handle in lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 100)
    ]
    ends: list[bool] = []
    threading.stack_size(256 * 1024)
    threads = [
        threading.Thread(target=lambda h=handle: ends.append(lifecycle.wait(h, timeout_seconds=90).completed))
        for handle in handles
    ]
    threading.stack_size(0)
    admin = valkey_server.client(decode_responses=True)
    before = scripts_run(admin)
    for thread in threads:
        thread.start()
    wait_until(
        lambda: scripts_run(admin) >= before + WAITERS and len(client_connections(admin)) >= 2,
        within_s=60,
    )
    assert 2 <= len(client_connections(admin)) <= 8
    for handle in handles:
        worker.complete(handle)
    for thread in threads:
        thread.join(60)
    assert ends == [True] * WAITERS
    assert len(client_connections(admin)) <= 8


async def test_a_thousand_tasks_wait_on_two_connections(
    settings: Settings, worker: StoreWorker, valkey_server: PrivateServer
) -> None:
    admin = valkey_server.client(decode_responses=True)
    async with AsyncSubagentLifecycle("customer-42", settings=settings) as lifecycle:
        handles = [
            handle
            for _ in range(WAITERS // 100)
            for handle in await lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 100)
        ]
        before = scripts_run(admin)
        tasks = [
            asyncio.create_task(AsyncSubagentLifecycle("customer-42", settings=settings).wait(handle))
            for handle in handles
        ]
        await asyncio.to_thread(
            wait_until,
            lambda: scripts_run(admin) >= before + WAITERS and len(client_connections(admin)) >= 2,
            within_s=60,
        )
        assert not any(task.done() for task in tasks)
        assert len(client_connections(admin)) == 2

        def finish() -> None:
            for handle in handles:
                worker.complete(handle)

        await asyncio.to_thread(finish)
        async with asyncio.timeout(60):
            ends = await asyncio.gather(*tasks)
        assert all(end.completed for end in ends)
        assert len(client_connections(admin)) == 2
    await asyncio.to_thread(wait_until, lambda: not client_connections(admin))


def test_facades_of_one_store_share_what_they_need(
    lifecycle: SubagentLifecycle, settings: Settings, valkey_server: PrivateServer, valkey_url: str
) -> None:
    others = [SubagentLifecycle(f"s{n}", settings=Settings.read(store_url=valkey_url)) for n in range(20)]
    for other in (*others, lifecycle):
        handle = other.launch(agent="support", goal="x")
        other.wait(handle, timeout_seconds=0.02)
    assert len(client_connections(valkey_server.client(decode_responses=True))) == 2


def test_nothing_is_connected_before_the_first_call_and_after_the_close(
    lifecycle: SubagentLifecycle, valkey_server: PrivateServer
) -> None:
    admin = valkey_server.client(decode_responses=True)
    assert client_connections(admin) == []
    lifecycle.launch(agent="support", goal="x")
    assert client_connections(admin)
    lifecycle.close()
    wait_until(lambda: not client_connections(admin))
    assert lifecycle.launch(agent="support", goal="y").subagent_id


async def test_a_synchronous_call_on_a_running_loop_names_the_asynchronous_twin(
    lifecycle: SubagentLifecycle,
) -> None:
    handle = await asyncio.to_thread(lambda: lifecycle.launch(agent="support", goal="x"))
    calls = (
        lambda: lifecycle.launch(agent="support", goal="x"),
        lambda: lifecycle.launch_many([{"agent": "support", "goal": "x"}]),
        lambda: lifecycle.run(agent="support", goal="x"),
        lambda: lifecycle.status(handle),
        lambda: lifecycle.wait(handle),
        lambda: lifecycle.wait_any([handle]),
        lambda: lifecycle.wait_all([handle]),
        lambda: lifecycle.result(handle),
        lambda: lifecycle.full_text(handle),
        lambda: lifecycle.steer(handle, "x"),
        lambda: lifecycle.send_steer(handle, "x"),
        lambda: lifecycle.steer_status(handle, "x"),
        lambda: lifecycle.cancel(handle),
        lambda: lifecycle.reconnect(handle),
        lambda: lifecycle.list(),
        lambda: lifecycle.events(handle),
        lambda: lifecycle.tree(handle),
    )
    for call in calls:
        with pytest.raises(SubagentLifecycleError, match="AsyncSubagentLifecycle") as caught:
            call()
        assert caught.value.code == ErrorCode.WRONG_LOOP


def test_a_facade_serves_one_event_loop_after_the_other(settings: Settings, worker: StoreWorker) -> None:
    facade = AsyncSubagentLifecycle("customer-42", settings=settings)

    async def launch_and_look() -> str:
        async with facade:
            handle = await facade.launch(agent="support", goal="x")
            return (await facade.status(handle)).state

    assert [asyncio.run(launch_and_look()) for _ in range(2)] == ["PENDING", "PENDING"]


FORKING = """
import os, sys, threading
from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle

lifecycle = SubagentLifecycle("customer-42", settings=Settings.read(store_url=sys.argv[1]))
first = lifecycle.launch(agent="support", goal="x")
waiting = threading.Thread(target=lambda: lifecycle.wait(first), daemon=True)
waiting.start()
while lifecycle.wait(first, timeout_seconds=0).completed:
    pass
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        second = lifecycle.launch(agent="support", goal="y")
        lifecycle.cancel(second)
        ended = lifecycle.wait(second, timeout_seconds=50).state == "CANCELLED"
        same = lifecycle.status(first).state == "PENDING"
        os._exit(0 if ended and same else 1)
    children.append(pid)
for pid in children:
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(1)
assert lifecycle.status(first).state == "PENDING"
print("forked")
"""


def test_a_forked_process_makes_its_own_connections(valkey_url: str, worker: StoreWorker) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", FORKING, valkey_url],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert (done.stdout, done.returncode) == ("forked\n", 0), done.stderr
