"""A real Flower beside a real worker: what it shows, what it must never show, and that its buttons work."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from retinue.broker.settings import Settings
from retinue.client import Phase, SubagentLifecycle, SubagentState
from retinue.contract import task_id
from retinue.testing import ScriptedServer, bad_request
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import RETINUE_COMMAND, WorkerProcess, worker_environment

RETINUE = RETINUE_COMMAND[0]
# For probes and Prometheus: whether it is up, and counts by agent and worker.
OPEN_PAGES = ("/healthcheck", "/metrics")
LOGIN = "ann:CANARY-LOGIN"
DEADLINE_S = 30.0
_POLL_S = 0.05


class Flower:
    """`retinue flower` on a free port, and its REST API."""

    def __init__(self, store_url: str, directory: Path, stack: ExitStack, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        user, password = LOGIN.split(":")
        settings = {"store_url": store_url, "flower_user": user, "flower_password": password}
        command = [RETINUE, "flower", "--port", str(port), *options]
        self.process = stack.enter_context(
            ChildProcess(command, log=directory / f"flower-{port}.log", env=worker_environment(settings))
        )
        self.process.wait_for_log("Visit me at", timeout_s=DEADLINE_S)

    def ask(self, path: str, *, post: bool = False, login: str | None = LOGIN) -> tuple[int, str]:
        """Status and body of an answer."""
        request = urllib.request.Request(self.url + path, data=b"" if post else None)
        if login is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=20) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get(self, path: str) -> Any:
        """The JSON of an answer."""
        code, body = self.ask(path)
        assert code == 200, f"{path}: {code} {body[:200]}"
        return json.loads(body)

    def wait_for_worker(self) -> str:
        """The worker's name, once Flower knows it: from then on it sees every task."""
        return wait_until(lambda: next(iter(self.get("/api/workers?refresh=true")), None), "a worker")

    def wait_for_state(self, uuid: str, state: str) -> dict[str, Any]:
        """The task as the API gives it, once it has that state."""

        def task() -> dict[str, Any] | None:
            found = self.get("/api/tasks").get(uuid)
            return found if found and found["state"] == state else None

        wait_until(task, f"{uuid} {state}")
        return self.get(f"/api/task/info/{uuid}")


def wait_until(found: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (value := found()):
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        time.sleep(_POLL_S)
    return value


class Stage:
    """A Flower, a worker, and runs that came to different ends."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        server = stack.enter_context(PrivateServer("valkey", password="CANARY-PASSWORD"))
        self.store_url = server.url
        self.model = stack.enter_context(ScriptedServer())
        self.directory, self._stack = directory, stack
        self.ours = stack.enter_context(
            SubagentLifecycle(session_id="flower", settings=Settings.read(store_url=server.url))
        )

    def flower(self, *options: str) -> Flower:
        return Flower(self.store_url, self.directory, self._stack, *options)

    def start_worker(self) -> None:
        provider = {"base_url": self.model.base_url, "api_key": "CANARY-KEY", "default_model": "gpt-5-mini"}
        settings = {"agents": "flower_agents", "providers": {"openai": provider}}
        worker = WorkerProcess(
            self.store_url,
            directory=self.directory,
            settings=settings,
            import_paths=[Path(__file__).parent],
            arguments=["--without-mingle", "--without-gossip"],
        )
        self._stack.enter_context(worker).wait_until_ready()


class Runs(Stage):
    """One run for each state that a task can have in Flower."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        super().__init__(directory, stack)
        self._write_scripts()
        self.shown = self.flower()
        self.start_worker()
        self.worker = self.shown.wait_for_worker()
        ours = self.ours
        texts = {"goal": "CANARY-GOAL", "context": "CANARY-CONTEXT", "metadata": {"note": "CANARY-METADATA"}}
        self.succeeded = ours.run(agent="support", wait_seconds=DEADLINE_S, **texts)
        self.crashed = ours.run(agent="crashing", wait_seconds=DEADLINE_S, **texts)
        self.rejected = ours.run(goal="CANARY-REFUSED", wait_seconds=DEADLINE_S)
        waiting = ours.launch(agent="waiter", **texts)
        self.waiting_id = waiting.subagent_id
        self.asleep_id = wait_until(lambda: self._child_of(waiting), "the child's model call")
        self.waiting_task = self.task(self.waiting_id, "SUCCESS")
        self.waiting_status = ours.status(waiting)
        ours.cancel(waiting)
        self.waiting_end = ours.wait(waiting, timeout_seconds=DEADLINE_S)

    def task(self, run_id: str, state: str, number: int = 1) -> dict[str, Any]:
        return self.shown.wait_for_state(task_id(run_id, number), state)

    def _write_scripts(self) -> None:
        model = self.model
        support = model.script("support").call("run_agent", {"name": "researcher", "task": "CANARY-TASK"})
        support.then("CANARY-ANSWER: ${results}")
        researcher = model.script("researcher").call("search_handbook", {"query": "CANARY-ARGUMENT"})
        researcher.then("${results}")
        waiter = model.script("waiter").call("run_agent", {"name": "sleeper", "task": "CANARY-TASK"})
        waiter.then("CANARY-ANSWER")
        model.script("sleeper").hold("asleep").say("CANARY-ANSWER")
        refused = model.script_where("refused", lambda asked: "CANARY-REFUSED" in asked.last_user)
        refused.say("").fault(bad_request("CANARY-ERROR: CANARY-REFUSED"), times=None)

    def _child_of(self, handle: object) -> str | None:
        nodes = self.ours.tree(handle)
        return next((node.run_id for node in nodes if node.depth and node.phase is Phase.MODEL_CALL), None)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    with ExitStack() as stack, pytest.MonkeyPatch.context() as desk:
        for name in os.environ:
            if name.startswith("RETINUE_"):
                desk.delenv(name)
        yield Runs(tmp_path_factory.mktemp("flower"), stack)


def test_a_run_that_succeeded_is_linked_to_its_tree_under_its_agents_name(runs: Runs) -> None:
    assert runs.succeeded.handle is not None
    root = runs.succeeded.handle.subagent_id
    first = task_id(root, 1)

    delegated, resumed = runs.task(root, "SUCCESS"), runs.task(root, "SUCCESS", 2)
    (researcher,) = [node for node in runs.ours.tree(runs.succeeded.handle) if node.depth]
    child = runs.task(researcher.run_id, "SUCCESS")

    assert (delegated["name"], delegated["args"], delegated["worker"]) == ("support", root, runs.worker)
    assert delegated["result"] == "suspended: waiting_children (1 open)"
    assert (resumed["name"], resumed["result"]) == ("support", "SUCCEEDED, 2 iterations")
    assert (child["name"], child["parent_id"], child["root_id"]) == ("researcher", first, first)
    assert (delegated["parent_id"], delegated["root_id"], resumed["root_id"]) == (None, first, first)


def test_a_run_that_failed_is_a_failure_with_its_classification_only(runs: Runs) -> None:
    assert runs.crashed.handle is not None
    assert runs.rejected.handle is not None

    crashed = runs.task(runs.crashed.handle.subagent_id, "FAILURE")
    rejected = runs.task(runs.rejected.handle.subagent_id, "FAILURE")

    assert (crashed["name"], crashed["exception"], crashed["traceback"]) == ("crashing", "AGENT_ERROR", "")
    assert (rejected["name"], rejected["exception"]) == ("assistant", "MODEL_REJECTED")
    # The owner is told more.
    assert runs.crashed.error_message == "ValueError: CANARY-ERROR: CANARY-GOAL"


def test_a_suspended_run_shows_a_task_that_is_over_and_a_cancelled_one_a_revoked_task(runs: Runs) -> None:
    assert (runs.waiting_status.state, runs.waiting_status.phase) == (
        SubagentState.RUNNING,
        Phase.WAITING_CHILDREN,
    )
    assert (runs.waiting_task["name"], runs.waiting_task["result"]) == (
        "waiter",
        "suspended: waiting_children (1 open)",
    )
    assert runs.task(runs.asleep_id, "REVOKED")["name"] == "sleeper"
    # Cancelled while no worker had it, so there is no task to revoke: only the store knows.
    assert runs.waiting_end.state is SubagentState.CANCELLED
    assert [task for task in runs.shown.get("/api/tasks") if task.startswith(runs.waiting_id)] == [
        task_id(runs.waiting_id, 1)
    ]


def test_no_page_shows_what_was_asked_said_called_or_configured_and_none_opens_without_a_login(
    runs: Runs,
) -> None:
    runs.task(runs.asleep_id, "REVOKED")
    flower = runs.shown
    # What is looked for was really there.
    assert "CANARY-RESULT of CANARY-ARGUMENT" in str(runs.succeeded.summary)
    asked = runs.model.requests("support")[0].request
    assert asked is not None
    assert "CANARY-INSTRUCTIONS" in asked.system
    assert asked.headers["authorization"] == "Bearer CANARY-KEY"

    shown = {page: flower.ask(page) for page in pages(flower, runs.worker)}

    assert {page: code for page, (code, _) in shown.items() if code != 200} == {}
    assert [page for page, (_, body) in shown.items() if "CANARY" in body] == []
    assert any("researcher" in body for _, body in shown.values())
    assert "CANARY" not in flower.process.log_text()
    for page in shown:
        for login in (None, "ann:wrong"):
            code, body = flower.ask(page, login=login)
            assert (page, code) == (page, 200 if page in OPEN_PAGES else 401)
            assert page in OPEN_PAGES or "support" not in body


def pages(flower: Flower, worker: str) -> list[str]:
    """Every page and every answer that Flower gives without being asked to change anything."""
    tasks = list(flower.get("/api/tasks"))
    assert len(tasks) == 7
    column = "order%5B0%5D%5Bcolumn%5D=0&columns%5B0%5D%5Bdata%5D=name"
    return [
        "/",
        "/workers",
        "/workers?json=1",
        f"/worker/{quote(worker)}",
        "/tasks",
        f"/tasks/datatable?draw=1&start=0&length=100&{column}",
        "/broker",
        "/metrics",
        "/healthcheck",
        "/api/workers?refresh=true",
        "/api/tasks",
        "/api/task/types",
        "/api/queues/length",
        *(f"{page}{uuid}" for page in ("/task/", "/api/task/info/") for uuid in tasks),
    ]


def test_flower_changes_nothing_unless_it_is_told_that_it_may(stage: Stage) -> None:
    reading, controlling = stage.flower(), stage.flower("--control")
    stage.start_worker()
    worker = reading.wait_for_worker()
    assert controlling.wait_for_worker() == worker
    model, ours = stage.model, stage.ours
    model.script("sleeper").hold("asleep").say("Done")
    held, other = (ours.launch(agent="sleeper", goal=f"Sleep {number}") for number in (1, 2))
    model.wait_for(lambda seen: seen.in_flight("sleeper") == 2, DEADLINE_S)
    task, other_task = task_id(held.subagent_id, 1), task_id(other.subagent_id, 1)
    for flower in (reading, controlling):
        flower.wait_for_state(task, "STARTED")

    for call in (
        f"/api/task/revoke/{task}?terminate=true",
        "/api/task/send-task/retinue.delegate",
        "/api/task/async-apply/retinue.delegate",
        f"/api/worker/shutdown/{worker}",
        f"/api/worker/pool/shrink/{worker}",
        f"/api/worker/queue/cancel-consumer/{worker}?queue=retinue",
    ):
        assert (call, reading.ask(call, post=True)[0]) == (call, 403)
    assert controlling.ask(f"/api/task/revoke/{task}", post=True, login=None)[0] == 401
    assert ours.status(held).phase is Phase.MODEL_CALL

    assert controlling.ask(f"/api/task/revoke/{task}?terminate=true", post=True)[0] == 200
    assert ours.wait(held, timeout_seconds=DEADLINE_S).state is SubagentState.CANCELLED
    assert reading.wait_for_state(task, "REVOKED")["name"] == "sleeper"
    assert controlling.ask(f"/api/task/revoke/{other_task}", post=True)[0] == 200
    assert ours.wait(other, timeout_seconds=DEADLINE_S).state is SubagentState.CANCELLED
    # The worker goes on: a revoke ends a run, not a process.
    model.release("asleep")
    assert ours.run(agent="sleeper", goal="Sleep 3", wait_seconds=DEADLINE_S).summary == "Done"
