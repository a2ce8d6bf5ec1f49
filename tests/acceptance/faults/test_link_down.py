"""A machine whose cable is cut: no RST, no FIN, and nobody acknowledges a byte.

The worker and the clients that are cut off run in a network namespace of their own.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.faults.network_namespace import FarMachine, Socket
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind
from tests.integration.client.store_worker import StoreWorker

from retinue.client import SubagentLifecycle
from retinue.contract import ErrorCode, EventType, SubagentHandle, SubagentState
from retinue.testing.processes import ChildProcess
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Call, Turn
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import CELERY_COMMAND, WorkerProcess, worker_environment

LEASE_S = 2.0
TAKEN_OVER_S = LEASE_S + 28.0
"""By when the runs of a lost machine are queued again, in seconds: its lease, three looks of the reaper, and
what a busy machine needs."""

FOUND_S = 60.0
"""By when a dead connection has been found, in seconds: 11 s, and what a busy machine needs; the kernel's own
way takes a quarter of an hour where something is under way, and for ever where nothing is."""

CLIENT = Path(__file__).with_name("waiting_client.py")

UNDER_WAY = {"until_there": "started", "until_cancelled": "waits", "until_told": "hangs"}
"""What each tool leaves behind when it begins."""

_POLL_S = 0.05


@pytest.fixture(scope="module")
def shared(far: FarMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Store and model on this machine, under an address that the far one reaches."""
    with ExitStack() as stack:
        server = stack.enter_context(PrivateServer(host=far.host, password="s3cret/ of@servers"))
        model = stack.enter_context(ScriptedServer(host=far.host))
        directory = tmp_path_factory.mktemp("link-down")
        yield RunRig(server, model, directory, stack, agents="faults.stale_agents", lease_seconds=LEASE_S)


@pytest.fixture
def rig(shared: RunRig, far: FarMachine) -> Iterator[RunRig]:
    yield shared
    far.mend()


def hold(rig: RunRig, goal: str) -> None:
    """Has the model keep runs of a goal waiting, until the goal is released."""
    rig.model.script("waiter", when=lambda asked: asked.last_user == goal).hold(goal).say("done")


def in_flight(rig: RunRig, count: int) -> None:
    rig.model.wait_for(lambda model: model.in_flight("waiter") == count, timeout_s=DEADLINE_S)


def start_tools(rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> SubagentHandle:
    """A run whose three tools are under way, which end by themselves after more than a minute."""
    calls = tuple(Call(tool, {"name": goal}) for tool in UNDER_WAY)
    rig.model.script("waiter", when=lambda asked: asked.messages[0].text == goal).then(
        Turn(calls=calls)
    ).then("done")
    handle = lifecycle.launch(agent="waiter", goal=goal)
    for trace in UNDER_WAY.values():
        rig.wait_for_trace(f"{goal}.{trace}")
    return handle


def check_went_elsewhere_once(rig: RunRig, lifecycle: SubagentLifecycle, handle: SubagentHandle) -> None:
    result = rig.result(lifecycle, handle)
    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "done")
    events = list(lifecycle.events(handle))
    assert len(of_kind(events, EventType.ATTEMPT_LOST)) == 1
    assert len(of_kind(events, EventType.RUN_FINISHED)) == 1
    finished = Counter(event.data["index"] for event in of_kind(events, EventType.TOOL_FINISHED))
    assert set(finished.values()) <= {1}


def start_far_worker(rig: RunRig, far: FarMachine) -> WorkerProcess:
    return rig.worker(concurrency=4, command=(*far.command, *CELERY_COMMAND))


def test_a_worker_whose_machine_is_lost_is_replaced_stops_what_it_did_and_works_again(
    rig: RunRig, far: FarMachine
) -> None:
    lifecycle = rig.lifecycle()
    old = start_far_worker(rig, far)
    hold(rig, "asking")
    asking = lifecycle.launch(agent="waiter", goal="asking")
    in_flight(rig, 1)
    using = start_tools(rig, lifecycle, "using")
    new = rig.worker(concurrency=4)

    far.cut()
    cut_at = time.monotonic()
    # The server may still hand its wake-up to the lost machine, which had asked for one.
    late = lifecycle.launch(agent="waiter", goal="asking")
    for handle in (asking, using):
        rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST)
    assert time.monotonic() - cut_at < TAKEN_OVER_S
    check_went_elsewhere_once(rig, lifecycle, using)
    in_flight(rig, 3)

    far.mend()

    # The lost one's own call to the model ends, its tools are told, and it writes nothing.
    in_flight(rig, 2)
    rig.wait_for_trace("using.cancelled")
    rig.wait_for_trace("using.told")
    old.wait_for_log(r"outcome=fenced", timeout_s=DEADLINE_S, count=2)
    rig.model.release("asking")
    check_went_elsewhere_once(rig, lifecycle, asking)
    assert rig.result(lifecycle, late).summary == "done"

    new.close()
    hold(rig, "after")
    after = lifecycle.launch(agent="waiter", goal="after")
    in_flight(rig, 1)
    assert after.subagent_id in str(rig.active(old))
    rig.model.release("after")
    assert rig.result(lifecycle, after).summary == "done"
    old.close()


class Clients:
    """Clients on the far machine, and a store on this one whose only worker is the test."""

    def __init__(self, far: FarMachine, server: PrivateServer, directory: Path, stack: ExitStack) -> None:
        self.server = server
        self._look = server.client(decode_responses=True)
        self.worker = StoreWorker(server.url)
        stack.callback(self.worker.close)
        self.worker.advertise("support")
        self._far, self._directory, self._stack = far, directory, stack

    def start(self, goal: str, *, seconds: float) -> tuple[ChildProcess, str]:
        """A client that waits for a run, and the id of the run; its broker is another database."""
        store, broker = self.server.url, self.server.url.removesuffix("0") + "1"
        waiting = self._count_subscribers()
        client = ChildProcess(
            [*self._far.command, sys.executable, str(CLIENT), "far", goal, str(seconds)],
            log=self._directory / f"{goal}.log",
            env=worker_environment({"store_url": store, "broker_url": broker}),
        )
        self._stack.enter_context(client)
        launched = client.wait_for_log(r"^launched (\S+)$", timeout_s=DEADLINE_S)
        # It subscribes once the store has answered its first look.
        self.wait_until(lambda: self._count_subscribers() > waiting, "a wait under way")
        return client, launched[1]

    def sockets(self) -> set[Socket]:
        return set(self._far.sockets(self.server.port))

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Returns once something is so."""
        deadline = time.monotonic() + FOUND_S
        while not true():
            assert time.monotonic() < deadline, f"not within {FOUND_S} s: {what}; {self.sockets()}"
            time.sleep(_POLL_S)

    def _count_subscribers(self) -> int:
        return sum(client["sub"] != "0" for client in self._look.client_list())


@pytest.fixture
def clients(far: FarMachine, tmp_path: Path) -> Iterator[Clients]:
    with ExitStack() as stack:
        server = stack.enter_context(PrivateServer(host=far.host, password="s3cret/ of@servers"))
        stack.callback(far.mend)
        yield Clients(far, server, tmp_path, stack)


def test_a_wait_on_a_machine_that_is_cut_off_is_told_so_or_ends_when_it_is_back(
    clients: Clients, far: FarMachine
) -> None:
    patient, run = clients.start("patient", seconds=300.0)
    brief, _ = clients.start("brief", seconds=8.0)

    far.cut()
    clients.worker.complete(run)
    for told in ("wait", "again"):
        brief.wait_for_log(rf"^{told} {ErrorCode.STORE_UNAVAILABLE}$", timeout_s=FOUND_S)
    assert brief.wait() == 0
    assert "wait" not in patient.log_text()
    far.mend()

    patient.wait_for_log(rf"^wait {SubagentState.SUCCEEDED} in time$", timeout_s=FOUND_S)
    patient.wait_for_log(r"^again sa-", timeout_s=FOUND_S)
    assert patient.wait() == 0


def test_the_kernel_ends_connections_to_a_machine_that_is_gone_without_help_of_the_process(
    clients: Clients, far: FarMachine
) -> None:
    """Those of store, subscription and broker, idle or with something sent that nobody has acknowledged."""
    idle, idle_run = clients.start("idle", seconds=300.0)
    idle.pause()
    before = clients.sockets()
    sending, sending_run = clients.start("sending", seconds=300.0)
    assert len(before) >= 3
    assert len(clients.sockets() - before) >= 3

    far.cut()
    clients.wait_until(lambda: any(each.unacknowledged for each in clients.sockets()), "a PING under way")
    sending.pause()
    clients.wait_until(lambda: not clients.sockets(), "no connection")
    far.mend()
    for client, run in ((idle, idle_run), (sending, sending_run)):
        clients.worker.complete(run)
        client.resume()
        client.wait_for_log(rf"^wait {SubagentState.SUCCEEDED} in time$", timeout_s=FOUND_S)
        client.wait_for_log(r"^again sa-", timeout_s=FOUND_S)
