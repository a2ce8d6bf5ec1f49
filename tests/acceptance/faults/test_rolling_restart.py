"""Workers that are replaced while they work: nothing is lost, done twice, or waits for an old process."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.broker.catalogue import WorkerEntry
from retinue.client import SubagentLifecycle
from retinue.client.reading.live_workers import ask, named, read_live_workers
from retinue.contract import EventType, Phase, SubagentHandle, SubagentState
from retinue.store.connections.sync_link import SyncLink
from retinue.store.store import Store
from retinue.testing.scripts import Call
from retinue.testing.workers import WorkerProcess
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN

SLOTS = 6
MODEL_CALLS = 2 + 2 * 2 + 2
"""Of one root under load: its own, those of the two that it delegates to, those of the one in its tool."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A model that takes its time, so that requests are in flight whenever a worker is told to drain."""
    directory: Path = tmp_path_factory.mktemp("drain")
    with run_rig(directory, agents="faults.drain_agents", latency_s=0.03, drain_seconds=20) as rig:
        yield rig


def test_a_rolling_restart_under_load_loses_nothing_and_repeats_nothing(rig: RunRig) -> None:
    script_load(rig, "load")
    rig.keep_workers(2, concurrency=SLOTS)
    lifecycle, before = rig.lifecycle("load"), rig.model.count()

    with steady_launches(lifecycle, "load") as handles:
        rig.wait_until(lambda: len(handles) > 10, "there is load")
        old = [worker for worker in rig.workers if worker.running]
        for worker in [rig.worker(ready=False, concurrency=SLOTS) for _ in old]:
            worker.wait_until_ready(DEADLINE_S)
        old[0].terminate()
        ask_to_end(rig, old[1])
        for worker in old:
            assert worker.wait(DEADLINE_S) == 0
        so_far = len(handles)
        rig.wait_until(lambda: len(handles) > so_far + 5, "the new ones have load")

    for number, handle in enumerate(handles):
        result = rig.result(lifecycle, handle)
        assert result.terminal_state is SubagentState.SUCCEEDED
        assert result.summary == answer(f"load-{number}")
        assert not of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    ran = Counter(line for line in rig.ledger() if " load-" in line)
    assert set(ran.values()) == {1}
    assert len(ran) == 5 * len(handles)
    assert rig.model.count() - before == MODEL_CALLS * len(handles), "every response was used"


def test_a_run_at_its_boundary_goes_on_elsewhere_while_the_old_process_still_has_a_call_in_flight(
    rig: RunRig,
) -> None:
    script(rig, "stuck", Call("hang", {"name": "stuck"}))
    script(rig, "free", Call("append", {"line": "free"}), gate="free")
    [old] = rig.keep_workers(1, concurrency=SLOTS)
    lifecycle = rig.lifecycle("boundary")
    stuck = lifecycle.launch(agent="leaf", goal="stuck")
    free = lifecycle.launch(agent="leaf", goal="free")
    rig.wait_for_trace("stuck.hangs")
    rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)

    new = rig.worker(concurrency=SLOTS)
    old.terminate()
    rig.wait_until(lambda: entry_of(rig, old).draining, "it says that it drains")
    rig.model.release("free")
    result = rig.result(lifecycle, free)

    assert result.summary == "heard wrote free"
    assert old.running
    rig.wait_until(lambda: lifecycle.status(stuck).phase is Phase.DRAINING, "it is shown that it drains")

    # A second SIGTERM changes nothing; SIGKILL in the middle is a lost attempt like any other.
    old.terminate()
    later = lifecycle.launch(agent="leaf", goal="free")
    assert rig.result(lifecycle, later).summary == "heard wrote free"
    assert old.running
    old.kill()
    assert str(rig.result(lifecycle, stuck).summary).startswith(f"heard {OUTCOME_UNKNOWN}")
    assert [line.split(" ", 1)[1] for line in rig.ledger()].count("hang stuck") == 1
    assert new.running


def test_a_call_longer_than_the_drain_is_handed_back_and_never_made_again(rig: RunRig) -> None:
    script(rig, "long", Call("hang", {"name": "long"}), Call("hand_on_again", {"task": "long-leaf"}))
    script(rig, "long-leaf", Call("append", {"line": "long-leaf"}), gate="long-leaf")
    rig.keep_workers(0, concurrency=SLOTS)
    old = rig.worker(concurrency=SLOTS, settings={"drain_seconds": 1.0})
    lifecycle = rig.lifecycle("long")
    handle = lifecycle.launch(agent="leaf", goal="long")
    rig.wait_for_trace("long.hangs")
    rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)

    old.terminate()
    assert old.wait(20) == 0
    rig.worker(concurrency=SLOTS)
    rig.model.release("long-leaf")
    result = rig.result(lifecycle, handle)

    # The one may have taken effect; the other may run again, and finds the child that it had launched.
    assert result.summary == f"heard {OUTCOME_UNKNOWN}; heard wrote long-leaf"
    assert len(of_kind(list(lifecycle.events(handle)), EventType.RUN_CREATED)) == 2
    assert not of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    lines = [line.split(" ", 1)[1] for line in rig.ledger()]
    assert (lines.count("hang long"), lines.count("long-leaf")) == (1, 1)


def test_signals_while_it_drains_are_safe_and_what_was_sent_to_it_alone_reaches_another(rig: RunRig) -> None:
    script(rig, "private", Call("append", {"line": "private"}))
    script(rig, "again", Call("append", {"line": "again"}), gate="again")
    rig.keep_workers(0, concurrency=1)
    old = rig.worker(concurrency=1)
    lifecycle = rig.lifecycle("private")
    again = lifecycle.launch(agent="leaf", goal="again")
    rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)
    private = lifecycle.launch(agent="leaf", goal="private")
    [source] = [str(key) for key in rig.store.keys("retinue\x06\x16*")]
    rig.store.rename(source, source.replace("retinue", entry_of(rig, old).private_queue, 1))

    ask_to_end(rig, old)
    rig.wait_until(lambda: entry_of(rig, old).draining, "it says that it drains")
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
        old.signal(number)
    rig.worker(concurrency=SLOTS)
    rig.model.release("again")

    assert rig.result(lifecycle, again).summary == "heard wrote again"
    assert rig.result(lifecycle, private).summary == "heard wrote private"
    assert old.wait(30) in (0, 1)
    lines = [line.split(" ", 1)[1] for line in rig.ledger()]
    assert (lines.count("again"), lines.count("private")) == (1, 1)
    assert not of_kind(list(lifecycle.events(again)), EventType.ATTEMPT_LOST)


def entry_of(rig: RunRig, worker: WorkerProcess) -> WorkerEntry:
    """What a worker advertises."""
    with closing(SyncLink(rig.server.url)) as link:
        everybody = read_live_workers(Store(link), link)
    (found,) = [each.entry for each in everybody if each.entry.pid == worker.pid]
    return found


def ask_to_end(rig: RunRig, worker: WorkerProcess) -> None:
    """What `retinue workers drain` does."""
    with closing(SyncLink(rig.server.url)) as link:
        store = Store(link)
        (found,) = named(read_live_workers(store, link), f"{worker.name}@{socket.gethostname()}")
        ask(store, found)


def script(rig: RunRig, goal: str, *calls: Call, gate: str | None = None) -> None:
    """A leaf that makes these calls at once, its model held back at a gate, and says what it heard."""
    said = rig.model.script("leaf", when=lambda request: request.messages[0].text == goal)
    if gate is not None:
        said = said.hold(gate)
    for call in calls:
        said = said.call(call.tool, call.arguments)
    said.then("heard ${results}")


def script_load(rig: RunRig, name: str) -> None:
    """A boss delegates to two leaves, waits for a third inside a tool, and takes time in another."""

    def is_goal(text: str) -> bool:
        return text.startswith(f"{name}-")

    rig.model.script("boss", when=lambda request: is_goal(request.messages[0].text)).call(
        "run_agent", {"name": "leaf", "task": "${user}.0"}
    ).call("run_agent", {"name": "leaf", "task": "${user}.1"}).call("hand_on", {"task": "${user}.2"}).call(
        "take_time", {"line": "${user}.3"}
    ).then("(${results})")
    rig.model.script("leaf", when=lambda request: is_goal(request.messages[0].text)).call(
        "append", {"line": "${user}"}
    ).then("${results}")


def answer(goal: str) -> str:
    leaves = "; ".join(f"wrote {goal}.{number}" for number in range(3))
    return f"({leaves}; took {goal}.3)"


@contextmanager
def steady_launches(lifecycle: SubagentLifecycle, name: str) -> Generator[Sequence[SubagentHandle]]:
    """Launches bosses, one every few milliseconds, until left; gives their handles."""
    handles: list[SubagentHandle] = []
    over = threading.Event()

    def launch() -> None:
        for number in itertools.count():
            handles.append(lifecycle.launch(agent="boss", goal=f"{name}-{number}"))
            if over.wait(0.15):
                return

    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    try:
        yield handles
    finally:
        over.set()
        thread.join(30)
