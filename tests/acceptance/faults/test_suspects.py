"""Suspects in their own processes: these are kept for the next, end with their worker, and hang alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.faults.test_rolling_restart import ask_to_end
from tests.acceptance.leftovers import Leftovers
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.broker.catalogue import read_workers
from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SubagentHandle
from retinue.store import keys
from retinue.store.connections.sync_link import SyncLink
from retinue.store.store import Store
from retinue.testing.scripts import Call
from retinue.testing.workers import WorkerProcess

HANG_S = 5.0


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Each test goes on with the worker that the one before has left; in the end no process is left."""
    directory: Path = tmp_path_factory.mktemp("suspects")
    with run_rig(directory, agents="faults.suspect_agents", drain_seconds=2, hang_seconds=HANG_S) as rig:
        yield rig
        for worker in rig.workers:
            worker.close()
        Leftovers(directory).wait_until_none()


def script(rig: RunRig, agent: str, goal: str, *calls: Call) -> None:
    """An agent that makes these calls, one a turn, and says what it heard."""
    said = rig.model.script(agent, when=lambda asked: asked.messages[0].text == goal)
    for call in calls:
        said = said.call(call.tool, call.arguments).then()
    said.say("${results}")


def launch_suspects(
    rig: RunRig, lifecycle: SubagentLifecycle, agent: str, *goals: str
) -> list[SubagentHandle]:
    """Launches runs that stand in the store as if one process had been lost with each."""
    [worker] = rig.keep_workers(1, concurrency=4)
    worker.pause()
    try:
        handles = [lifecycle.launch(agent=agent, goal=goal) for goal in goals]
        for handle in handles:
            rig.store.hset(keys.record("_", handle.subagent_id), "ls", "1")
    finally:
        worker.resume()
    return handles


def processes(rig: RunRig, name: str, *, count: int = 1) -> list[int]:
    """The processes in which a tool noted a name, once it has done so that often."""

    def noted() -> list[int]:
        lines = [line.split() for line in rig.ledger()]
        return [int(pid) for _, noted, pid in lines if noted == name]

    rig.wait_until(lambda: len(noted()) >= count, f"{count} x {name}")
    return noted()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def losses(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> list[object]:
    """Of each attempt that was lost, whether it counted."""
    lost = of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    return [event.data["counted"] for event in lost]


def advertised(rig: RunRig) -> set[int]:
    """The processes that stand in the store."""
    with closing(SyncLink(rig.server.url)) as link:
        return {entry.pid for entry in Store(link).run(read_workers()).values()}


def test_a_suspect_that_resumes_goes_on_in_the_process_that_it_had(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    script(
        rig,
        "boss",
        "resume",
        Call("where", {"name": "before"}),
        Call("run_agent", {"name": "leaf", "task": "resume-leaf"}),
        Call("where", {"name": "after"}),
    )
    script(rig, "leaf", "resume-leaf", Call("where", {"name": "between"}))

    [handle] = launch_suspects(rig, lifecycle, "boss", "resume")
    rig.succeeded(lifecycle, handle)

    [worker] = [worker for worker in rig.workers if worker.running]
    assert processes(rig, "between") == [worker.pid]
    assert processes(rig, "after") == processes(rig, "before") != [worker.pid]


def terminate(_rig: RunRig, worker: WorkerProcess) -> None:
    worker.terminate()


def terminate_twice(_rig: RunRig, worker: WorkerProcess) -> None:
    worker.terminate()
    worker.wait_for_log("Warm shutdown")
    worker.signal(signal.SIGQUIT)


@pytest.mark.parametrize("end", [ask_to_end, terminate, terminate_twice])
def test_a_worker_that_drains_takes_its_suspects_processes_along(
    rig: RunRig, end: Callable[[RunRig, WorkerProcess], None]
) -> None:
    """One suspect's tool ends in time, another's does not."""
    lifecycle, word = rig.lifecycle(), getattr(end, "__name__", "")
    script(rig, "leaf", f"{word}-soon", Call("wait", {"name": f"{word}-soon"}), Call("where", {"name": "x"}))
    script(rig, "leaf", f"{word}-late", Call("wait", {"name": f"{word}-late"}))
    handles = launch_suspects(rig, lifecycle, "leaf", f"{word}-soon", f"{word}-late")
    [soon], [late] = processes(rig, f"{word}-soon"), processes(rig, f"{word}-late")
    [old] = [worker for worker in rig.workers if worker.running]

    end(rig, old)
    rig.trace(f"{word}-soon.go").touch()
    assert old.wait(30) == 0
    assert is_gone(soon)
    assert is_gone(late)
    assert not advertised(rig) & {old.pid, soon, late}
    rig.trace(f"{word}-late.go").touch()
    rig.keep_workers(1, concurrency=4)

    for handle in handles:
        rig.succeeded(lifecycle, handle)
        assert losses(lifecycle, handle) == []


def test_the_suspects_of_a_killed_worker_are_handed_back_and_not_lost(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    script(rig, "leaf", "kill", Call("wait", {"name": "kill"}), Call("where", {"name": "kill-after"}))
    [handle] = launch_suspects(rig, lifecycle, "leaf", "kill")
    [alone] = processes(rig, "kill")
    [old] = [worker for worker in rig.workers if worker.running]

    old.kill()
    rig.trace("kill.go").touch()
    rig.keep_workers(1, concurrency=4)

    assert rig.result(lifecycle, handle).summary == "at kill-after"
    assert losses(lifecycle, handle) == []
    assert processes(rig, "kill") == [alone], "its result was kept"
    rig.wait_until(lambda: is_gone(alone), "its process ends")


def test_a_suspects_process_that_hangs_is_killed_and_counts(rig: RunRig) -> None:
    """One is stopped, in the other no thread gets its turn; a third suspect beside them notices nothing."""
    lifecycle = rig.lifecycle()
    script(rig, "leaf", "stopped", Call("wait", {"name": "stopped"}))
    script(rig, "leaf", "gripped", Call("grip", {"name": "gripped"}))
    script(rig, "leaf", "well", Call("wait", {"name": "well"}))
    handles = launch_suspects(rig, lifecycle, "leaf", "stopped", "gripped", "well")
    [stopped], [gripped] = processes(rig, "stopped"), processes(rig, "gripped")
    processes(rig, "well")

    os.kill(stopped, signal.SIGSTOP)
    rig.trace("stopped.go").touch()
    rig.wait_until(lambda: is_gone(stopped) and is_gone(gripped), "both are killed")
    results = [rig.result(lifecycle, handle) for handle in handles[:2]]
    rig.trace("well.go").touch()
    results.append(rig.result(lifecycle, handles[2]))

    assert [result.summary for result in results] == [
        "waited for stopped",
        "gripped gripped",
        "waited for well",
    ]
    assert [losses(lifecycle, handle) for handle in handles] == [[True], [True], []]
