"""A task of the application's own Celery app is sent the handle at the end of a run, at least once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import SubagentHandle, SubagentLifecycleError
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer

_HERE = Path(__file__).parent
ALLOWED = {"on_done_tasks": "shop.done"}
DONE = {"task": "shop.done"}


@contextmanager
def shop(rig: RunRig, directory: Path, broker: PrivateServer) -> Generator[ChildProcess]:
    """A worker of the application, which serves its default queue and one more."""
    command = [sys.executable, "-m", "celery", "-A", "shop_app", "worker", "-P", "solo"]
    env = {**os.environ, "SHOP_BROKER": broker.url, "SHOP_STORE": rig.server.url, "PYTHONPATH": str(_HERE)}
    options = ["-Q", "celery,urgent", "--without-mingle", "--without-gossip", "-l", "INFO", "-n", "shop@%h"]
    with ChildProcess([*command, *options], log=directory / "shop.log", cwd=directory, env=env) as worker:
        worker.wait_for_log(r"ready\.$", timeout_s=40)
        yield worker


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers of Retinue and one of the application, on one server."""
    directory = tmp_path_factory.mktemp("done")
    with run_rig(directory, agents="control.stop_agents", **ALLOWED) as rig:
        for _ in range(2):
            rig.worker(concurrency=20, queues=["retinue"])
        with shop(rig, directory, rig.server):
            yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def told(rig: RunRig, handle: SubagentHandle) -> list[dict[str, Any]]:
    """What the application's task was told of a run."""
    path = rig.trace("done.txt")
    lines = path.read_text().splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return [line for line in found if line["run"] == handle.subagent_id]


def wait_until_told(
    rig: RunRig, handle: SubagentHandle, *, times: int = 1, timeout_s: float = 30
) -> dict[str, Any]:
    """The first that the task was told, once it was told so often."""
    rig.wait_until(lambda: len(told(rig, handle)) >= times, f"told {times} times", timeout_s=timeout_s)
    return told(rig, handle)[0]


def outbox(rig: RunRig) -> list[str]:
    """All keys that stand for something that is still to be told."""
    return [*rig.store.scan_iter("retinue:*:out:*", count=10_000)]


def says(rig: RunRig, word: str, text: str) -> None:
    rig.model.script("hand", when=lambda request: request.messages[0].text == word).say(text)


def test_the_task_gets_a_handle_with_which_it_can_read_the_result(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    says(rig, "plain", "it is done")
    handle = lifecycle.launch(agent="hand", goal="plain", on_done=DONE)
    line = wait_until_told(rig, handle)
    assert line == {
        "task": f"{handle.subagent_id}.done",
        "queue": "celery",
        "run": handle.subagent_id,
        "state": "SUCCEEDED",
        "summary": "it is done",
    }
    rig.wait_until(lambda: not outbox(rig), "nothing is left to be told")
    assert len(told(rig, handle)) == 1


def test_a_queue_may_be_named(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    says(rig, "urgent", "at once")
    handle = lifecycle.launch(agent="hand", goal="urgent", on_done={**DONE, "queue": "urgent"})
    assert wait_until_told(rig, handle)["queue"] == "urgent"


def test_a_run_that_no_worker_ever_held_is_told_of_too(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    cancelled = lifecycle.launch(agent="faraway", goal="cancelled", on_done=DONE)
    interrupted = lifecycle.launch(agent="faraway", goal="interrupted", on_done=DONE)
    late = lifecycle.launch(agent="faraway", goal="late", on_done=DONE, timeout_seconds=0.2)
    lifecycle.cancel(cancelled)
    lifecycle.interrupt(interrupted)
    assert wait_until_told(rig, cancelled)["state"] == "CANCELLED"
    assert wait_until_told(rig, interrupted)["state"] == "INTERRUPTED"
    assert wait_until_told(rig, late)["state"] == "INTERRUPTED"


def test_a_task_that_is_not_allowed_is_refused_at_launch(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    with pytest.raises(SubagentLifecycleError, match="on_done_tasks") as refused:
        lifecycle.launch(agent="hand", goal="x", on_done={"task": "shop.drop_tables"})
    assert refused.value.field == "on_done.task"


def test_a_worker_killed_between_sending_and_noting_it_has_it_sent_again_under_the_same_id(
    tmp_path: Path,
) -> None:
    with run_rig(tmp_path, agents="control.stop_agents", **ALLOWED) as rig:
        dying = rig.worker(settings={"crash_point": "after-notice"})
        says(rig, "twice", "it is done")
        lifecycle = rig.lifecycle()
        handle = lifecycle.launch(agent="hand", goal="twice", on_done=DONE)
        rig.wait_until(lambda: not dying.running, "the worker has died")
        assert outbox(rig), "nobody knows that it was sent"
        rig.worker()
        with shop(rig, tmp_path, rig.server):
            wait_until_told(rig, handle, times=2, timeout_s=40)
            rig.wait_until(lambda: not outbox(rig), "nothing is left to be told")
        assert {line["task"] for line in told(rig, handle)} == {f"{handle.subagent_id}.done"}
        assert len(told(rig, handle)) == 2


def test_a_broker_that_is_away_at_the_end_gets_it_when_it_is_back(tmp_path: Path) -> None:
    with PrivateServer("valkey") as broker:
        settings = {**ALLOWED, "broker_url": broker.url, "store_timeout_seconds": 1.0}
        with run_rig(tmp_path, agents="control.stop_agents", **settings) as rig:
            rig.worker()
            rig.model.script("hand", when=lambda request: request.messages[0].text == "away").say("ok").hold(
                "broker is away"
            )
            handle = rig.lifecycle().launch(agent="hand", goal="away", on_done=DONE)
            rig.model.wait_for(lambda model: model.in_flight() == 1)
            broker.stop()
            rig.model.release("broker is away")
            rig.wait_until(lambda: bool(outbox(rig)), "the run has ended")
            broker.start()
            with shop(rig, tmp_path, broker):
                assert wait_until_told(rig, handle, timeout_s=40)["summary"] == "ok"
            rig.wait_until(lambda: not outbox(rig), "nothing is left to be told")
