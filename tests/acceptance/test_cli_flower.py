"""`retinue flower`: closed to strangers, read-only, and silent about what was said."""

from __future__ import annotations

import base64
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retinue.broker.app import create_app
from retinue.broker.settings import Settings
from retinue.contract import task_id
from retinue.testing import ScriptedServer
from retinue.testing.clients import LifecycleFactory
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess, worker_environment

AGENTS = """
from retinue.agents import Agent

desk = Agent(name="desk", instructions="You are desk.", model="m")
"""
SECRET = "the-customers-words"
_LIMIT_S = 60.0


class Flower:
    """A Flower on a free port, and what a browser would ask it."""

    def __init__(self, directory: Path, store_url: str, *arguments: str, **settings: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.login: tuple[str, str] | None = None
        self.process = ChildProcess(
            [sys.executable, "-m", "retinue.cli", "flower", *arguments],
            log=directory / "flower.log",
            cwd=directory,
            env=worker_environment({"store_url": store_url, "flower_port": self.port, **settings}),
        )

    def wait_until_ready(self) -> None:
        self.process.wait_for_log(rf"Visit me at http://127\.0\.0\.1:{self.port}", timeout_s=_LIMIT_S)

    def ask(self, path: str, *, post: bool = False) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=b"" if post else None)
        if self.login is not None:
            token = base64.b64encode(":".join(self.login).encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + _LIMIT_S
        while True:
            status, body = self.ask(path)
            if status == 200 and true(found := json.loads(body)):
                return found
            assert time.monotonic() < deadline, (status, body[:500])
            time.sleep(0.1)


@pytest.fixture
def start(tmp_path: Path, valkey_url: str) -> Iterator[Callable[..., Flower]]:
    started: list[Flower] = []

    def start(*arguments: str, **settings: object) -> Flower:
        flower = Flower(tmp_path, valkey_url, *arguments, **settings)
        started.append(flower)
        flower.wait_until_ready()
        return flower

    yield start
    for flower in started:
        flower.process.close()


@pytest.fixture
def worker(tmp_path: Path, valkey_url: str, scripted_model: ScriptedServer) -> Iterator[WorkerProcess]:
    (tmp_path / "flower_agents.py").write_text(AGENTS)
    scripted_model.script("desk").say(SECRET).repeat_last()
    with WorkerProcess(
        valkey_url,
        directory=tmp_path,
        settings={"agents": "flower_agents"},
        import_paths=[tmp_path],
        model_url=scripted_model.base_url,
    ) as worker:
        worker.wait_until_ready(_LIMIT_S)
        yield worker


def test_without_a_log_in_one_is_made_and_only_it_opens(start: Callable[..., Flower]) -> None:
    flower = start()
    said = flower.process.wait_for_log(r"user (\S+), password (\S+)$")

    assert flower.ask("/")[0] == 401
    assert flower.ask("/api/tasks")[0] == 401
    flower.login = (said[1], "wrong")
    assert flower.ask("/")[0] == 401
    flower.login = (said[1], said[2])
    assert flower.ask("/")[0] == 200
    assert flower.process.log_text().count(said[2]) == 1
    # The password can be read by nobody in the list of processes.
    assert said[2] not in Path(f"/proc/{flower.process.pid}/cmdline").read_text()


def test_the_log_in_of_the_settings_opens_and_is_never_printed(start: Callable[..., Flower]) -> None:
    flower = start(flower_user="ops", flower_password="s3cret,with:signs")

    flower.login = ("ops", "s3cret,with:signs")
    assert flower.ask("/")[0] == 200
    assert "s3cret" not in flower.process.log_text()


def test_it_shows_runs_and_none_of_their_words_and_lets_nothing_be_changed(
    start: Callable[..., Flower],
    worker: WorkerProcess,
    valkey_url: str,
    valkey_server: PrivateServer,
    lifecycle: LifecycleFactory,
) -> None:
    flower = start(flower_user="ops", flower_password="secret")
    flower.login = ("ops", "secret")
    flower.until("/api/workers?refresh=true", bool)
    facade = lifecycle(valkey_url)
    handle = facade.launch(agent="desk", goal=SECRET)
    assert facade.wait(handle, 30).completed
    # A task of another application on the same broker, whose events carry its arguments.
    stranger = create_app(Settings.read(store_url=valkey_url))
    with stranger.events.default_dispatcher() as dispatcher:
        dispatcher.send("task-received", uuid="stranger", name="mail", args=repr((SECRET,)), kwargs="{}")
        dispatcher.send("task-failed", uuid="stranger", exception=SECRET, traceback=SECRET)

    ours = task_id(handle.subagent_id, 1)
    tasks = flower.until(
        "/api/tasks", lambda all: all.get(ours, {}).get("state") == "SUCCESS" and "stranger" in all
    )
    assert tasks[ours]["name"] == "desk"
    # Ids and counts of ours; of a stranger's task nothing at all.
    assert tasks[ours]["args"] == handle.subagent_id
    assert tasks[ours]["result"] == "SUCCEEDED, 1 iterations"
    assert {tasks["stranger"][name] for name in ("args", "exception", "traceback")} == {""}
    for path in ("/api/tasks", "/tasks", f"/task/{ours}", "/task/stranger", f"/api/task/info/{ours}"):
        assert SECRET not in flower.ask(path)[1], path
    assert flower.ask(f"/api/task/revoke/{ours}?terminate=true", post=True)[0] == 403
    assert flower.ask(f"/api/worker/shutdown/{worker.name}", post=True)[0] == 403


def test_control_lets_it_revoke(start: Callable[..., Flower]) -> None:
    flower = start("--control", flower_user="ops", flower_password="secret")
    flower.login = ("ops", "secret")

    assert flower.ask("/api/task/revoke/any?terminate=true", post=True)[0] == 200
