"""Workers that go on with a run which others own by now, or that only seemed to be dead."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.acceptance.faults.sidecars import pause_host, resume_host
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SubagentHandle, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import running
from retinue.testing.proxy import FaultProxy
from retinue.testing.scripts import Call, Turn
from retinue.testing.workers import WorkerProcess

TOOLS = {"until_there": "started", "until_cancelled": "waits", "until_told": "hangs"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(tmp_path_factory.mktemp("stale"), agents="faults.stale_agents") as rig:
        yield rig


@pytest.fixture(scope="module")
def alone(shared: RunRig) -> WorkerProcess:
    """The only worker of the tests that come first."""
    return shared.worker(concurrency=1)


@pytest.fixture
def rig(shared: RunRig) -> RunRig:
    """One without workers."""
    for worker in shared.workers:
        worker.close()
    return shared


def start_tools(rig: RunRig, lifecycle: SubagentLifecycle, word: str) -> SubagentHandle:
    """A run whose three tools are under way."""
    calls = tuple(Call(tool, {"name": word}) for tool in TOOLS)
    rig.model.script("waiter", when=lambda asked: asked.messages[0].text == word).then(
        Turn(calls=calls)
    ).then("done")
    handle = lifecycle.launch(agent="waiter", goal=word)
    for trace in TOOLS.values():
        rig.wait_for_trace(f"{word}.{trace}")
    return handle


def take_away(rig: RunRig, handle: SubagentHandle) -> None:
    """Takes a run from its worker, which lives and is not told."""
    key = RunKey("_", handle.subagent_id)
    owner = str(rig.store.hget(key.record, "own"))
    call = running.take_over(key, process=owner, dead=False, losses_before_end=3)
    reply = rig.store.eval(call.script.body, len(call.keys), *call.keys, *call.argv)
    assert reply[0] == "QUEUED"  # pyright: ignore


def wait_until_stopped(rig: RunRig, worker: WorkerProcess, word: str) -> None:
    """Returns once a worker has stopped the tools of a run, and has its slot back."""
    rig.wait_for_trace(f"{word}.cancelled")
    rig.wait_for_trace(f"{word}.told")
    rig.wait_until(lambda: rig.active(worker) == [], "the slot")


@pytest.mark.parametrize("writes", [True, False])
def test_a_worker_that_learns_that_it_is_stale_stops_all_tools_of_the_run(
    shared: RunRig, alone: WorkerProcess, *, writes: bool
) -> None:
    """By the refusal of its next write; or, where it writes nothing, by a look at its owner set."""
    lifecycle, word = shared.lifecycle(), f"stale {writes}"
    handle = start_tools(shared, lifecycle, word)
    take_away(shared, handle)

    if writes:
        shared.trace(f"{word}.there").touch()

    wait_until_stopped(shared, alone, word)
    result = shared.result(lifecycle, handle)
    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "done")
    finished = of_kind(list(lifecycle.events(handle)), EventType.TOOL_FINISHED)
    assert sorted(event.data["index"] for event in finished) == [0, 1, 2]
    assert not any(event.data["ok"] for event in finished), "nobody knows what became of the old ones"


def test_a_model_call_that_was_in_flight_on_a_worker_cut_off_ends_when_it_is_back(rig: RunRig) -> None:
    rig.model.script("waiter", when=lambda asked: asked.last_user == "cut off").hold("cut off").say("done")
    lifecycle = rig.lifecycle()
    with FaultProxy(rig.server.port) as way:
        old = rig.worker(concurrency=1, settings={"store_url": way.url, "store_timeout_seconds": 1.0})
        handle = lifecycle.launch(agent="waiter", goal="cut off")
        rig.model.wait_for(lambda model: model.in_flight("waiter") == 1, timeout_s=30)
        rig.worker(concurrency=1)
        way.black_hole(new_too=True)
        rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST)
        rig.model.wait_for(lambda model: model.in_flight("waiter") == 2, timeout_s=30)

        way.heal()

        rig.model.wait_for(lambda model: model.in_flight("waiter") == 1, timeout_s=30)
        first, second = rig.model.requests("waiter")[-2:]
        assert (first.disconnected, second.disconnected) == (True, False)
        old.wait_for_log(r"outcome=fenced", timeout_s=DEADLINE_S)
        rig.model.release("cut off")
        result = rig.result(lifecycle, handle)

    assert result.summary == "done"
    assert len(of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)) == 1


def test_a_machine_that_was_frozen_past_its_lease_stops_what_it_did(rig: RunRig) -> None:
    lifecycle = rig.lifecycle()
    old = rig.worker(concurrency=1)
    handle = start_tools(rig, lifecycle, "frozen")
    rig.worker(concurrency=1)

    sidecar = pause_host(old)
    rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST)
    result = rig.result(lifecycle, handle)
    before = list(lifecycle.events(handle))
    resume_host(old, sidecar)

    wait_until_stopped(rig, old, "frozen")
    assert result.summary == "done"
    assert list(lifecycle.events(handle)) == before


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers: one gets all work, the other one watches it."""
    directory = tmp_path_factory.mktemp("steady")
    with run_rig(directory, agents="faults.stale_agents", lease_seconds=3.0) as rig:
        rig.worker(concurrency=2)
        rig.worker(concurrency=2, queues=["aside"])
        yield rig


@pytest.mark.parametrize(("whole_machine", "seconds"), [(True, 1.0), (False, 4.0)])
def test_a_pause_in_which_the_lease_is_kept_requeues_nothing(
    steady: RunRig, *, whole_machine: bool, seconds: float
) -> None:
    """A machine paused for a part of its lease; a worker for longer, but its sidecar goes on."""
    lifecycle, word = steady.lifecycle(), f"pause {whole_machine}"
    handle = start_tools(steady, lifecycle, word)
    paused = steady.workers[0]

    if whole_machine:
        sidecar = pause_host(paused)
        time.sleep(seconds)
        resume_host(paused, sidecar)
    else:
        paused.pause()
        time.sleep(seconds)
        paused.resume()
    steady.trace(f"{word}.there").touch()
    steady.wait_for_event(lifecycle, handle, EventType.TOOL_FINISHED)

    assert not steady.trace(f"{word}.cancelled").exists()
    assert lifecycle.cancel(handle).accepted
    steady.result(lifecycle, handle)
    assert of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST) == []


def test_code_that_keeps_the_interpreter_to_itself_requeues_nothing(steady: RunRig) -> None:
    """For longer than the lease, and less than `hang_seconds`."""
    call = Call("hold_interpreter", {"name": "greedy", "seconds": 4.0})
    steady.model.script("holder").then(Turn(calls=(call,))).then("${results}")
    steady.model.script("waiter", when=lambda asked: asked.last_user == "beside").hold("beside").say("done")
    lifecycle = steady.lifecycle()
    beside = lifecycle.launch(agent="waiter", goal="beside")
    steady.model.wait_for(lambda model: model.in_flight("waiter") == 1, timeout_s=30)
    handle = lifecycle.launch(agent="holder", goal="hold")

    assert steady.result(lifecycle, handle).summary == "let go"
    steady.model.release("beside")
    assert steady.result(lifecycle, beside).summary == "done"
    for each in (handle, beside):
        assert of_kind(list(lifecycle.events(each)), EventType.ATTEMPT_LOST) == []
