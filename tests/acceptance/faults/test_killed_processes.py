"""Each kind of process killed: sidecar, machine, elected reaper, client, and a parent that just launched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.managerworkers import ManagerWorkers
from tests.acceptance.faults.launching_client import launch_leaves
from tests.acceptance.faults.sidecars import sidecar_of
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SubagentHandle, SubagentState
from retinue.store import keys
from retinue.testing.scripts import Call, Turn
from retinue.testing.workers import WorkerProcess, worker_environment

_HERE = Path(__file__).parent
_LEAVES = 1_000


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Each test goes on with the workers that the one before has left."""
    with run_rig(tmp_path_factory.mktemp("kills"), agents="faults.kill_agents") as rig:
        yield rig


def hold(rig: RunRig, lifecycle: SubagentLifecycle, word: str, count: int) -> list[SubagentHandle]:
    """So many runs, all of them in a model call that is held back."""
    rig.model.script("leaf", when=lambda asked: asked.last_user == word).hold(word).say(f"{word} done")
    before = rig.model.count()
    handles = lifecycle.launch_many([{"agent": "leaf", "goal": word}] * count)
    rig.model.wait_for(lambda model: model.count() == before + count, timeout_s=DEADLINE_S)
    return list(handles)


def owner_of(rig: RunRig, handle: SubagentHandle) -> WorkerProcess:
    """The worker that has a run."""
    return worker_with(rig.workers, str(rig.store.hget(keys.record("_", handle.subagent_id), "own")))


def worker_with(workers: Sequence[WorkerProcess], process: str) -> WorkerProcess:
    """The worker whose process has this id."""
    return next(worker for worker in workers if f"worker.ready process={process}" in worker.log_text())


def losses(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> int:
    return len(of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST))


def finish(rig: RunRig, lifecycle: SubagentLifecycle, handles: list[SubagentHandle], word: str) -> None:
    """Lets held runs go on, and sees that each ends once and well."""
    rig.model.release(word)
    for handle in handles:
        assert rig.result(lifecycle, handle).summary == f"{word} done"
        assert len(of_kind(list(lifecycle.events(handle)), EventType.RUN_FINISHED)) == 1


def test_a_sidecar_that_is_killed_again_and_again_costs_nothing(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    rig.keep_workers(2, concurrency=4)
    [handle] = hold(rig, lifecycle, "sidecar", 1)
    worker = owner_of(rig, handle)

    for count in range(1, 4):
        os.kill(sidecar_of(worker), signal.SIGKILL)
        worker.wait_for_log("lease_sidecar_ended", count=count)
        rig.wait_until(lambda: has_sidecar(worker), "another sidecar")

    finish(rig, lifecycle, [handle], "sidecar")
    assert losses(lifecycle, handle) == 0


def has_sidecar(worker: WorkerProcess) -> bool:
    try:
        return sidecar_of(worker) > 0
    except (LookupError, FileNotFoundError):
        return False


def test_a_machine_that_is_lost_is_noticed_by_its_lease(rig: RunRig) -> None:
    """Worker and sidecar at once: nobody is left to give the lease up."""
    lifecycle = rig.lifecycle()
    rig.keep_workers(2, concurrency=4)
    handles = hold(rig, lifecycle, "machine", 4)
    owners = [owner_of(rig, handle) for handle in handles]

    os.kill(sidecar := sidecar_of(owners[0]), signal.SIGSTOP)
    owners[0].kill()
    rig.wait_for_event(lifecycle, handles[0], EventType.ATTEMPT_LOST)
    os.kill(sidecar, signal.SIGKILL)

    finish(rig, lifecycle, handles, "machine")
    assert [losses(lifecycle, handle) for handle in handles] == [owner is owners[0] for owner in owners]


def test_several_that_all_believe_that_they_are_elected_do_no_harm(rig: RunRig) -> None:
    """The election is forgotten again and again, so that every worker that asks is elected."""
    lifecycle = rig.lifecycle()
    workers = rig.keep_workers(3, concurrency=4)
    handles = hold(rig, lifecycle, "all", 6)
    owners = [owner_of(rig, handle) for handle in handles]
    over = threading.Event()

    def forget() -> None:
        while not over.wait(0.01):
            rig.store.delete(keys.REAPER)

    forgetting = threading.Thread(target=forget, daemon=True)
    forgetting.start()
    try:
        for worker in workers:
            worker.wait_for_log(r"reaper\.elected", timeout_s=DEADLINE_S)
        owners[0].kill()
        rig.wait_for_event(lifecycle, handles[0], EventType.ATTEMPT_LOST)
    finally:
        over.set()
        forgetting.join()

    finish(rig, lifecycle, handles, "all")
    assert [losses(lifecycle, handle) for handle in handles] == [owner is owners[0] for owner in owners]


def test_the_elected_reaper_and_another_worker_die_at_once(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    workers = rig.keep_workers(3, concurrency=4)
    handles = hold(rig, lifecycle, "elected", 6)
    owners = [owner_of(rig, handle) for handle in handles]
    rig.wait_until(lambda: rig.store.exists(keys.REAPER) == 1, "an elected one")
    elected = worker_with(workers, str(rig.store.get(keys.REAPER)))
    victims = [elected, next(worker for worker in workers if worker is not elected)]

    for worker in victims:
        worker.signal(signal.SIGKILL)

    finish(rig, lifecycle, handles, "elected")
    assert [losses(lifecycle, handle) for handle in handles] == [owner in victims for owner in owners]


def test_a_client_killed_while_it_launches_many_leaves_whole_runs_and_may_repeat_it(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("batch")
    rig.model.script("leaf", when=lambda asked: asked.last_user.startswith("leaf ")).say("leaf done")
    [worker] = rig.keep_workers(1, concurrency=4)
    client = subprocess.Popen(
        [sys.executable, str(_HERE / "launching_client.py"), "batch", str(_LEAVES)],
        env=worker_environment({"store_url": rig.server.url, "lease_seconds": 1.0}),
    )
    try:
        rig.wait_until(lambda: len(lifecycle.list(limit=1)) > 0, "the first of them")
    finally:
        client.kill()
        client.wait()
    assert worker.running

    run_ids = launch_leaves(lifecycle, _LEAVES)

    assert len(set(run_ids)) == _LEAVES
    rig.wait_until(lambda: all_ended(rig, run_ids), "the end of all of them")
    asked = Counter(
        recorded.request.last_user
        for recorded in rig.model.requests("leaf")
        if recorded.request and recorded.request.last_user.startswith("leaf ")
    )
    assert asked == {f"leaf {n}": 1 for n in range(_LEAVES)}


def all_ended(rig: RunRig, run_ids: list[str]) -> bool:
    with rig.store.pipeline(transaction=False) as pipeline:
        for run_id in run_ids:
            pipeline.hget(keys.record("_", run_id), "st")
        return set(pipeline.execute()) == {SubagentState.SUCCEEDED.value}


def background(rig: RunRig, lifecycle: SubagentLifecycle) -> SubagentHandle:
    """A boss that starts two leaves in the background and waits for them."""
    leaves = [{"name": "leaf", "task": f"aside {n}", "background": True} for n in range(2)]
    script = rig.model.script("boss").then(Turn(calls=tuple(Call("run_agent", leaf) for leaf in leaves)))
    script.then(Turn(calls=(Call("wait_agents", {}),))).then("${results}")
    rig.model.script("leaf", when=lambda asked: asked.last_user.startswith("aside")).say("${user} done")
    return lifecycle.launch(agent="boss", goal="aside")


def by_value(rig: RunRig, lifecycle: SubagentLifecycle) -> SubagentHandle:
    """A group that comes as a document, whose manager writes to both of its workers."""
    llm = OpenAiConfig(name="llm", model_id="scripted")
    head, *workers = (
        SpecAgent(name=name, description=name, llm_config=llm, system_prompt=f"You are {name}.")
        for name in ("head", "left", "right")
    )
    calls = (Call("send_message", {"recipient": name, "message": "aside"}) for name in ("left", "right"))
    rig.model.script("head").then(Turn(calls=tuple(calls))).then("${results}")
    for name in ("left", "right"):
        rig.model.script(name).say(f"{name} done")
    group = ManagerWorkers(name="group", group_manager=head, workers=workers)
    return lifecycle.launch(agent=group, goal="aside")


@pytest.mark.parametrize("start", [background, by_value])
def test_children_launched_just_before_a_crash_are_found_and_not_launched_again(
    rig: RunRig, start: Callable[[RunRig, SubagentLifecycle], SubagentHandle]
) -> None:
    lifecycle = rig.lifecycle(start.__name__)
    rig.keep_workers(0, concurrency=1)
    doomed = rig.worker(concurrency=1, settings={"crash_point": "after-launch"})

    handle = start(rig, lifecycle)
    assert doomed.wait(DEADLINE_S) == -signal.SIGKILL
    children = {node.run_id for node in lifecycle.tree(handle)[1:]}
    assert children
    rig.worker(concurrency=1)
    result = rig.result(lifecycle, handle)

    nodes = lifecycle.tree(handle)
    assert [node.state for node in nodes] == [SubagentState.SUCCEEDED] * 3
    assert children <= {node.run_id for node in nodes}
    assert str(result.summary).count("done") == 2
    assert losses(lifecycle, handle) == 1
