"""A worker whose set-up is wrong ends soon, with one line that says the mend, and leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.leftovers import Leftovers

from retinue.testing.servers import PrivateServer
from retinue.testing.workers import CELERY_COMMAND, RETINUE_COMMAND, WorkerFactory

SOON_S = 20.0
"""An import of Celery takes seconds on a busy machine; the checks themselves take three at most."""

TWICE = 'from retinue.agents import Agent\nwriter = Agent(name="writer", instructions="Write.")\n'


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """One that may be configured badly."""
    with PrivateServer("valkey") as server:
        yield server


@pytest.fixture
def deaf_url() -> Iterator[str]:
    """An address at which nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield f"redis://127.0.0.1:{door.getsockname()[1]}/0"


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Leftovers:
    leftovers = Leftovers(tmp_path)
    for name, value in leftovers.environment.items():
        monkeypatch.setenv(name, value)
    return leftovers


@pytest.mark.parametrize("command", [CELERY_COMMAND, RETINUE_COMMAND], ids=["celery", "retinue"])
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"agents": "no_such_agents"}, "agents: module 'no_such_agents' cannot be found"),
        ({"agents": "once,again"}, "two agents are named 'writer': at once:writer and at again:writer"),
        ({"lease_seconds": "soon"}, "lease_seconds: input should be a valid number"),
        ({"store_url": None}, "store_url: there is no store"),
        ({"store_url": "redis://127.0.0.1:1/0"}, "no server answers at redis://127.0.0.1:1/0"),
        ({"store_url": "deaf"}, "no server answers at "),
        ({"store_url": "evicting"}, "maxmemory-policy is allkeys-lru"),
        (
            {"store_url": "no database"},
            "the server has no database 9999. To mend: correct the database number",
        ),
    ],
    ids=[
        "no module",
        "two of a name",
        "a setting",
        "no store",
        "unreachable",
        "silent",
        "evicting",
        "no database",
    ],
)
def test_a_worker_that_is_set_up_wrongly_says_so_and_ends(
    worker_process: WorkerFactory,
    server: PrivateServer,
    deaf_url: str,
    leftovers: Leftovers,
    tmp_path: Path,
    command: tuple[str, ...],
    settings: dict[str, object],
    says: str,
) -> None:
    for name in ("once", "again"):
        (tmp_path / f"{name}.py").write_text(TWICE)
    evicts = settings.get("store_url") == "evicting"
    server.client().config_set("maxmemory-policy", "allkeys-lru" if evicts else "noeviction")
    if evicts:
        settings = {"store_url": server.url}
    elif settings.get("store_url") == "no database":
        settings = {"store_url": server.url.replace("/0", "/9999")}
    elif settings.get("store_url") == "deaf":
        settings = {"store_url": deaf_url}

    worker = worker_process(server.url, ready=False, command=command, settings=settings)

    assert worker.wait(SOON_S) == 1
    log = worker.log_text()
    (line,) = [line for line in log.splitlines() if line.startswith("retinue: ")]
    assert says in line
    assert "To mend: " in line
    assert "Traceback" not in log
    worker.close()  # with the process that holds its leash
    leftovers.wait_until_none()


STOPS_SERVER = """
import os
from contextlib import suppress

import redis

from retinue.agents import Agent

client = redis.Redis.from_url(os.environ["RETINUE_STORE_URL"])
while not client.keys("retinue:lease:*"):
    pass
# The server has let the worker in; once this is imported it is gone.
with suppress(redis.ConnectionError):
    client.shutdown(nosave=True)
writer = Agent(name="writer", instructions="Write.")
"""


def test_a_worker_that_was_let_in_waits_for_a_server_that_restarts(
    worker_process: WorkerFactory, tmp_path: Path
) -> None:
    (tmp_path / "stops_server.py").write_text(STOPS_SERVER)
    with PrivateServer("valkey") as server:
        worker = worker_process(server.url, ready=False, agents=["stops_server"], import_paths=[tmp_path])
        worker.wait_for_log("store.waiting", timeout_s=SOON_S)
        server.restart()
        worker.wait_until_ready(2 * SOON_S)


def test_a_worker_that_waits_for_its_server_can_be_stopped(
    worker_process: WorkerFactory, tmp_path: Path
) -> None:
    (tmp_path / "stops_server.py").write_text(STOPS_SERVER)
    with PrivateServer("valkey") as server:
        worker = worker_process(server.url, ready=False, agents=["stops_server"], import_paths=[tmp_path])
        worker.wait_for_log("store.waiting", timeout_s=SOON_S)
        worker.terminate()
        assert worker.wait(SOON_S) == 1
        assert "told to stop before it was ready" in worker.log_text()
