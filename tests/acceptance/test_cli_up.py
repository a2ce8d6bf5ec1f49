"""`retinue up`: what dies is started again, and nothing outlives the command."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.acceptance.leftovers import Leftovers

from retinue.testing import ScriptedServer
from retinue.testing.processes import ChildProcess
from retinue.testing.workers import worker_environment

AGENTS = """
from retinue.agents import Agent

desk = Agent(name="desk", instructions="You are desk.", model="m")
"""
_LIMIT_S = 60.0

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"
)


class Up:
    """`retinue up` with a state directory of its own, and other shells beside it."""

    def __init__(self, directory: Path, model: ScriptedServer, *arguments: str, **more: str) -> None:
        self.directory = directory
        self.leftovers = Leftovers(directory)
        (directory / "up_agents.py").write_text(AGENTS)
        self.environment = {
            **worker_environment({"drain_seconds": 2, "http__port": 0}, model_url=model.base_url),
            "XDG_STATE_HOME": str(directory / "state"),
        }
        self.process = ChildProcess(
            [sys.executable, "-m", "retinue.cli", "up", *arguments],
            log=directory / "up.log",
            cwd=directory,
            env={**self.environment, **more, **self.leftovers.environment},
        )

    def web_url(self, count: int = 1) -> str:
        """Address of the HTTP API, at its `count`-th start."""
        return self.process.wait_for_log(r"^listening on (http://[\w.:]+)", timeout_s=_LIMIT_S, count=count)[
            1
        ]

    def store_url(self) -> str:
        return self.process.wait_for_log(
            r"^export RETINUE_STORE_URL='?(redis://\S+?)'?$", timeout_s=_LIMIT_S
        )[1]

    def wait_until_ready(self, count: int = 1) -> None:
        self.process.wait_for_log(r"\bready\.$", timeout_s=_LIMIT_S, count=count)

    def server_pid(self) -> int | None:
        """None while there is no server that answers."""
        file = self.directory / "state/retinue/valkey/server.json"
        return json.loads(file.read_text())["pid"] if file.exists() else None

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "retinue.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env=self.environment,
            check=False,
        )

    def workers(self) -> list[dict[str, Any]]:
        return json.loads(self.cli("ps", "--json").stdout).get("workers", [])


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer() as model:
        model.script("desk").say("Done.").repeat_last()
        yield model


@pytest.fixture
def up(tmp_path: Path, model: ScriptedServer) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*arguments: str, **more: str) -> Up:
        started.append(Up(tmp_path, model, *arguments, **more))
        return started[-1]

    yield start
    for each in started:
        each.process.close()
        each.leftovers.wait_until_none()


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_it_brings_a_store_and_workers_and_other_shells_find_them(up: Callable[..., Up]) -> None:
    started = up("up_agents", "--workers", "2", "-c", "3")
    started.wait_until_ready(2)

    # Without any setting: the store of a `retinue up` is found by itself.
    done = started.cli("run", "desk", "Go.", "--quiet")
    workers = started.workers()
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert [worker["slots"] for worker in workers] == [3, 3]
    assert len({worker["pid"] for worker in workers}) == 2
    assert started.store_url().startswith("redis://:")


LIBRARY = """
from retinue.client import SubagentLifecycle
with SubagentLifecycle("library") as lifecycle:
    print(lifecycle.run(agent="desk", goal="Go.", wait_seconds=60).summary)
"""


def test_library_and_celerys_own_program_find_the_store_too(up: Callable[..., Up]) -> None:
    started = up("--workers", "0")
    started.store_url()
    with ChildProcess(
        [sys.executable, "-m", "celery", "-A", "retinue.worker", "worker", "-l", "INFO"],
        log=started.directory / "celery.log",
        cwd=started.directory,
        env={**started.environment, "RETINUE_AGENTS": "up_agents", "PYTHONPATH": str(started.directory)},
    ) as worker:
        worker.wait_for_log(r"\bready\.$", timeout_s=_LIMIT_S)
        done = subprocess.run(
            [sys.executable, "-c", LIBRARY],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env=started.environment,
            check=False,
        )
        worker.terminate()
        worker.wait(30)

    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr


def test_sigterm_ends_everything_in_good_order(up: Callable[..., Up]) -> None:
    started = up("up_agents")
    started.wait_until_ready()

    started.process.terminate()

    assert started.process.wait(30) == 0
    assert started.leftovers.list() == []
    assert started.cli("ps").returncode == 1


def test_ctrl_c_twice_kills_workers_that_are_slow_to_end(up: Callable[..., Up]) -> None:
    started = up("up_agents")
    started.wait_until_ready()
    (worker,) = started.workers()
    os.kill(worker["pid"], signal.SIGSTOP)

    started.process.signal(signal.SIGINT)
    started.process.wait_for_log("once more to kill them")
    started.process.signal(signal.SIGINT)

    assert started.process.wait(30) == 0
    assert started.leftovers.list() == []


def test_nothing_outlives_a_command_that_is_killed(up: Callable[..., Up]) -> None:
    started = up("up_agents")
    started.wait_until_ready()
    assert started.leftovers.list()

    started.process.kill()

    started.leftovers.wait_until_none()


def test_a_killed_worker_is_started_again(up: Callable[..., Up]) -> None:
    started = up("up_agents")
    started.wait_until_ready()
    (before,) = started.workers()

    os.kill(before["pid"], signal.SIGKILL)

    started.process.wait_for_log(r"worker 1 \(pid \d+\) was killed by signal 9; starting it again in 0\.5 s")
    started.wait_until_ready(2)
    until(lambda: [w["pid"] for w in started.workers()] not in ([], [before["pid"]]), "another worker")
    assert started.cli("run", "desk", "Go.", "--quiet").stdout == "Done.\n"


def test_a_killed_store_is_started_again_with_its_data_and_its_address(up: Callable[..., Up]) -> None:
    started = up("up_agents")
    started.wait_until_ready()
    handle = started.cli("launch", "desk", "Go.").stdout
    assert started.cli("wait", handle).returncode == 0
    before = started.server_pid()
    assert before is not None

    os.kill(before, signal.SIGKILL)

    started.process.wait_for_log("the embedded Valkey does not answer; starting it again")
    until(lambda: started.server_pid() not in (None, before), "another server")
    until(lambda: started.cli("status", handle).returncode == 0, "the run of before")
    assert started.cli("run", "desk", "Go.", "--quiet").stdout == "Done.\n"
    assert len(re.findall("^export ", started.process.log_text(), re.M)) == 1


def test_workers_that_cannot_start_are_given_up(up: Callable[..., Up]) -> None:
    started = up("no_such_agents")

    assert started.process.wait(_LIMIT_S) == 1
    assert "module 'no_such_agents' cannot be found" in started.process.log_text()
    assert "ends as soon as it is started" in started.process.log_text()
    assert started.leftovers.list() == []


def test_the_http_api_comes_up_too_with_a_key_and_is_started_again(up: Callable[..., Up]) -> None:
    started = up("--workers", "0")
    url = started.web_url()
    key = started.process.wait_for_log(rf"open {url}/#key=(rtn_\S+)$")[1]
    me = httpx2.get(f"{url}/v1/whoami", headers={"Authorization": f"Bearer {key}"})
    assert me.json()["tenant"] == "_"
    (web,) = [line for line in started.leftovers.list() if "retinue.cli web" in line]

    os.kill(int(web.split()[0]), signal.SIGKILL)

    started.process.wait_for_log(r"web \(pid \d+\) was killed by signal 9; starting it again in 0\.5 s")
    again = started.web_url(2)
    # The key is still good, and told no second time.
    assert httpx2.get(f"{again}/v1/whoami", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    assert started.process.log_text().count(key) == 1
    started.process.terminate()
    assert started.process.wait(30) == 0
    assert started.leftovers.list() == []


def test_without_the_http_api_there_is_none(up: Callable[..., Up]) -> None:
    started = up("--workers", "0", "--no-web")
    started.store_url()

    started.process.terminate()

    assert started.process.wait(30) == 0
    assert "listening on" not in started.process.log_text()


def test_a_port_that_is_taken_costs_the_http_api_alone(up: Callable[..., Up]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        started = up("--workers", "0", "--web-port", str(taken.getsockname()[1]))

        started.process.wait_for_log(r"cannot listen on 127\.0\.0\.1", timeout_s=_LIMIT_S)
        started.process.wait_for_log(r"web \(pid \d+\) ended with exit code 1", timeout_s=_LIMIT_S)
    assert started.process.running
    assert started.cli("ps").returncode == 0


HIDES_FASTAPI = """
import importlib.machinery
find_spec = importlib.machinery.PathFinder.find_spec
def find(_cls, name, path=None, target=None):
    return None if name in {"fastapi", "uvicorn"} else find_spec(name, path, target)
importlib.machinery.PathFinder.find_spec = classmethod(find)
"""


def test_without_the_extra_it_goes_on_without_the_http_api(up: Callable[..., Up], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDES_FASTAPI)
    started = up("--workers", "0", PYTHONPATH=str(tmp_path))
    started.store_url()

    web = subprocess.run(
        [sys.executable, "-m", "retinue.cli", "web"],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env={**started.environment, "PYTHONPATH": str(tmp_path)},
        check=False,
    )

    says = "fastapi, uvicorn, which are not installed. To mend: pip install 'retinue[api]'."
    assert (web.returncode, web.stderr) == (1, f"retinue: the HTTP API needs {says}\n")
    assert f"going on without the HTTP API: it needs {says}" in started.process.log_text()
    assert started.process.running
