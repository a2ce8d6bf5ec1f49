"""A real Flower beside a real worker: what it shows, what it must never show, and that its buttons work."""

from __future__ import annotations

import base64
import json
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from retinue.client import ErrorClassification, Phase, SubagentLifecycle, SubagentState
from retinue.contract import task_id
from retinue.testing import ScriptedServer, bad_request
from retinue.testing.clients import LifecycleFactory
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import RETINUE_COMMAND, WorkerFactory, worker_environment

RETINUE = RETINUE_COMMAND[0]
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
            ChildProcess(
                command, log=directory / f"flower-{port}.log", env=worker_environment(settings)
            )
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


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def store_url(stack: ExitStack) -> str:
    """A store with a password, which is not to be seen either."""
    return stack.enter_context(PrivateServer("valkey", password="CANARY-PASSWORD")).url


@pytest.fixture
def start_worker(worker_process: WorkerFactory, store_url: str, scripted_model: ScriptedServer) -> Any:
    key = {"base_url": scripted_model.base_url, "api_key": "CANARY-KEY"}

    def start() -> None:
        worker_process(
            store_url,
            agents=["flower_agents"],
            settings={"providers": {"openai": key}},
            arguments=["--without-mingle", "--without-gossip"],
        )

    return start


def test_flower_shows_each_run_under_its_agents_name_and_nothing_of_what_it_said(
    stack: ExitStack,
    store_url: str,
    start_worker: Callable[[], None],
    scripted_model: ScriptedServer,
    lifecycle: LifecycleFactory,
    tmp_path: Path,
) -> None:
    flower = Flower(store_url, tmp_path, stack)
    start_worker()
    worker = flower.wait_for_worker()
    support = scripted_model.script("support")
    support.call("run_agent", {"name": "researcher", "task": "CANARY-TASK"}).then("CANARY-ANSWER: ${results}")
    scripted_model.script("researcher").call("search_handbook", {"query": "CANARY-ARGUMENT"}).then("${results}")
    scripted_model.script("waiter").call("run_agent", {"name": "sleeper", "task": "CANARY-TASK"}).then("Done")
    scripted_model.script("sleeper").hold("asleep").say("CANARY-ANSWER")
    refused = scripted_model.script_where("refused", lambda asked: "CANARY-REFUSED" in asked.last_user)
    refused.say("").fault(bad_request("CANARY-ERROR: CANARY-REFUSED"), times=None)
    ours = lifecycle(store_url, session_id="flower")
    texts = {"goal": "CANARY-GOAL", "context": "CANARY-CONTEXT", "metadata": {"note": "CANARY-METADATA"}}

    succeeded = ours.run(agent="support", wait_seconds=DEADLINE_S, **texts)
    crashed = ours.run(agent="crashing", wait_seconds=DEADLINE_S, **texts)
    rejected = ours.run(goal="CANARY-REFUSED", model="gpt-5-mini", wait_seconds=DEADLINE_S)
    waiting = ours.launch(agent="waiter", **texts)
    asleep = wait_until(lambda: child_of(ours, waiting, Phase.MODEL_CALL), "the child's model call")
    suspended_task = flower.wait_for_state(task_id(waiting.subagent_id, 1), "SUCCESS")
    suspended = ours.status(waiting)
    ours.cancel(waiting)

    def task(run_id: str, state: str, number: int = 1) -> dict[str, Any]:
        return flower.wait_for_state(task_id(run_id, number), state)

    root = succeeded.handle.subagent_id
    assert "CANARY-RESULT of CANARY-ARGUMENT" in succeeded.summary
    delegated, resumed = task(root, "SUCCESS"), task(root, "SUCCESS", 2)
    assert (delegated["name"], delegated["args"], delegated["worker"]) == ("support", root, worker)
    assert delegated["result"] == "suspended: waiting_children (1 open)"
    assert (resumed["name"], resumed["result"]) == ("support", "SUCCEEDED, 2 iterations")
    (researcher,) = [node for node in ours.tree(succeeded.handle) if node.depth]
    child = task(researcher.run_id, "SUCCESS")
    first = task_id(root, 1)
    assert (child["name"], child["parent_id"], child["root_id"]) == ("researcher", first, first)
    assert (delegated["parent_id"], delegated["root_id"], resumed["root_id"]) == (None, first, first)

    failed = task(crashed.handle.subagent_id, "FAILURE")
    assert crashed.error_message.startswith("ValueError: CANARY-ERROR")
    assert (failed["name"], failed["exception"], failed["traceback"]) == ("crashing", "AGENT_ERROR", "")
    generic = task(rejected.handle.subagent_id, "FAILURE")
    assert rejected.error_classification is ErrorClassification.MODEL_REJECTED
    assert generic["exception"] == "MODEL_REJECTED"

    # Suspended: the task is over, the run is not. Only the store knows that it waits.
    assert (suspended.state, suspended.phase) == (SubagentState.RUNNING, Phase.WAITING_CHILDREN)
    assert (suspended_task["name"], suspended_task["result"][:10]) == ("waiter", "suspended:")
    # Cancelled while it was worked on. The waiting parent had no task that could show it.
    assert task(asleep, "REVOKED")["name"] == "sleeper"
    assert ours.wait(waiting, timeout_seconds=10).state is SubagentState.CANCELLED

    assert sorted(flower.get("/api/task/types")["task-types"]) == [
        "crashing",
        rejected_name(flower, rejected.handle.subagent_id),
        "researcher",
        "sleeper",
        "support",
        "waiter",
    ]
    shown = {page: flower.ask(page) for page in pages(flower, worker)}
    assert {page: code for page, (code, _) in shown.items() if code != 200} == {}
    assert [page for page, (_, body) in shown.items() if "CANARY" in body] == []
    assert "CANARY" not in flower.process.log_text()
    for page in shown:
        code, body = flower.ask(page, login=None)
        assert (page, code) == (page, 200 if page == "/healthcheck" else 401)
        assert "support" not in body
    assert flower.ask("/api/tasks", login="ann:wrong")[0] == 401


def rejected_name(flower: Flower, run_id: str) -> str:
    return flower.get(f"/api/task/info/{task_id(run_id, 1)}")["name"]


def child_of(ours: SubagentLifecycle, handle: object, phase: Phase) -> str | None:
    nodes = [node for node in ours.tree(handle) if node.depth and node.phase is phase]
    return nodes[0].run_id if nodes else None


def pages(flower: Flower, worker: str) -> list[str]:
    """Every page and every answer that Flower gives without being asked to change anything."""
    table = "/tasks/datatable?draw=1&start=0&length=100&order%5B0%5D%5Bcolumn%5D=0&columns%5B0%5D%5Bdata%5D=name"
    tasks = [uuid for uuid in flower.get("/api/tasks")]
    assert len(tasks) == 8
    return [
        "/",
        "/workers",
        "/workers?json=1",
        f"/worker/{quote(worker)}",
        "/tasks",
        table,
        "/broker",
        "/metrics",
        "/healthcheck",
        "/api/workers?refresh=true",
        "/api/tasks",
        "/api/task/types",
        "/api/queues/length",
        *(f"{page}{uuid}" for page in ("/task/", "/api/task/info/") for uuid in tasks),
    ]


def test_flower_changes_nothing_unless_it_is_told_that_it_may(
    stack: ExitStack,
    store_url: str,
    start_worker: Callable[[], None],
    scripted_model: ScriptedServer,
    lifecycle: LifecycleFactory,
    tmp_path: Path,
) -> None:
    reading, controlling = Flower(store_url, tmp_path, stack), Flower(store_url, tmp_path, stack, "--control")
    start_worker()
    worker = reading.wait_for_worker()
    assert controlling.wait_for_worker() == worker
    scripted_model.script("sleeper").hold("asleep").say("Done")
    ours = lifecycle(store_url, session_id="flower")
    held, other = (ours.launch(agent="sleeper", goal=f"Sleep {number}") for number in (1, 2))
    scripted_model.wait_for(lambda model: model.in_flight("sleeper") == 2, DEADLINE_S)
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
    scripted_model.release("asleep")
    assert ours.run(agent="sleeper", goal="Sleep 3", wait_seconds=DEADLINE_S).summary == "Done"
