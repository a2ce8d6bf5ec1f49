"""`retinue workers list` and `retinue workers drain` against a real worker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.acceptance.test_cli import AGENTS, Cli

from retinue.cli.exits import ExitCode
from retinue.testing import ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

DRAIN_S = 30.0


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer() as model:
        model.script("idler").hold("idler").say("Late.")
        yield model


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    directory: Path = tmp_path_factory.mktemp("cli-workers")
    (directory / "cli_agents.py").write_text(AGENTS)
    with PrivateServer() as server:
        yield Cli(directory, server.url)


@pytest.fixture(scope="module")
def worker(cli: Cli, model: ScriptedServer) -> Iterator[WorkerProcess]:
    settings = {"agents": "cli_agents", "drain_seconds": DRAIN_S}
    url, directory = cli.environment["RETINUE_STORE_URL"], cli.directory
    with WorkerProcess(
        url, directory=directory, settings=settings, model_url=model.base_url, name="w1", concurrency=3
    ) as worker:
        worker.wait_until_ready(60)
        yield worker


def test_without_a_worker_there_is_nothing_to_list_or_drain(cli: Cli) -> None:
    assert cli.json("workers", "list") == {"workers": []}
    assert cli("workers", "list").stdout == "no worker\n"
    assert cli.json("workers", "drain", "--all") == {"asked": []}
    refused = cli("workers", "drain", "w1")
    assert (refused.returncode, refused.stderr) == (
        ExitCode.PROBLEM,
        "retinue: no live worker is named 'w1'. To mend: give a name that `retinue workers list` shows.\n",
    )


def test_a_worker_is_listed_while_the_server_is_full(cli: Cli, worker: WorkerProcess) -> None:
    """As Celery's own inspect is not, whose question is a write."""
    with redis.Redis.from_url(cli.environment["RETINUE_STORE_URL"]) as server:
        server.config_set("maxmemory", 1)
        try:
            [found] = cli.json("workers", "list")["workers"]
            assert (found["pid"], found["runs"]) == (worker.pid, 0)
            assert found["lease_ms"] > 0
            refused = cli("workers", "drain", "--all")
        finally:
            server.config_set("maxmemory", 0)
    assert (refused.returncode, refused.stdout) == (ExitCode.STORE_UNAVAILABLE, "")
    assert "memory" in refused.stderr


def test_a_worker_is_listed_and_drained_by_its_name(
    cli: Cli, worker: WorkerProcess, model: ScriptedServer
) -> None:
    launched = cli.json("launch", "idler", "wait")
    model.wait_for(lambda model: model.in_flight("idler") == 1, timeout_s=30)

    [found] = cli.json("workers", "list")["workers"]
    name = f"w1@{socket.gethostname()}"
    assert (found["name"], found["pid"], found["queues"]) == (name, worker.pid, ["retinue"])
    assert (found["runs"], found["slots"]) == (1, 3)
    assert 0 < found["lease_ms"] <= 5_000
    assert not found["draining"]
    shown = cli("workers", "list").stdout
    assert name in shown
    assert "1/3" in shown

    asked = cli("workers", "drain", name)
    assert (asked.returncode, asked.stdout) == (
        ExitCode.OK,
        f"asked {name} ({socket.gethostname()}:{worker.pid}) to drain\n",
    )
    worker.wait_for_log("drain.asked", timeout_s=20)
    worker.wait_for_log("Warm shutdown", timeout_s=20)
    [found] = cli.json("workers", "list")["workers"]
    assert (found["drain_asked"], found["runs"]) == (True, 1)
    model.release("idler")

    assert worker.wait(DRAIN_S) == 0
    assert cli.json("workers", "list") == {"workers": []}
    assert cli.json("result", launched["subagent_id"])["summary"] == "Late."


@pytest.mark.parametrize("arguments", [(), ("w1", "--all")])
def test_a_drain_names_one_worker_or_all(cli: Cli, arguments: tuple[str, ...]) -> None:
    refused = cli("workers", "drain", *arguments)
    assert refused.returncode == ExitCode.USAGE
    assert "either the NAME of one worker or --all" in refused.stderr
