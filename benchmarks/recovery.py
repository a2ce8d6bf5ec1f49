"""How long it takes until work goes on after a fault, printed as a table: `make recovery`.

Nothing is asserted: the figures are this machine's. Workers have the default settings.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from processes import family

from retinue.broker.settings import Settings
from retinue.client import SubagentHandle, SubagentLifecycle
from retinue.contract import EventType
from retinue.store import keys
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Call, Match, Turn
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

HERE = Path(__file__).parent
PAUSE_S = 2.0
STEP_S = 0.1
_POLL_S = 0.005
_LIMIT_S = 60.0


class Scene:
    """A server, a scripted model, and two workers, one of which a fault strikes."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.server = stack.enter_context(PrivateServer("valkey", appendonly=True))
        model = stack.enter_context(ScriptedServer())
        model.script("looper", when=Match(user_contains="held")).hold("never").say("never")
        walk = Turn(calls=(Call("look", {"query": "on"}),), first_byte_after_s=STEP_S)
        model.script("looper", when=Match(user_contains="walk")).reply(lambda _: walk)
        model.script("looper").say("done")
        settings = Settings.read(store_url=self.server.url)
        self.lifecycle = stack.enter_context(SubagentLifecycle(session_id="recovery", settings=settings))
        self._model_url = model.base_url
        self._directory = directory
        self._stack = stack
        self._store = self.server.client(decode_responses=True)
        self._workers = [self._start(name) for name in ("first", "second")]
        self.run: SubagentHandle | None = None

    def begin(self, goal: str, *, elected: bool = False) -> WorkerProcess:
        """Has `run` under way on a worker that is the elected reaper, or is not; returns that worker."""
        until(lambda: self._store.exists(keys.REAPER) == 1, "an elected reaper")
        reaper = str(self._store.get(keys.REAPER))
        while True:
            self.run = self.lifecycle.launch(agent="looper", goal=goal, max_iterations=1_000)
            self.until_event(EventType.MODEL_STARTED, 1)
            [started] = [one for one in self.lifecycle.events(self.run) if one.type is EventType.RUN_STARTED]
            if (started.data["process"] == reaper) is elected:
                pid = str(self._store.get(keys.lease(str(started.data["process"])))).rpartition(":")[2]
                return next(worker for worker in self._workers if str(worker.pid) == pid)

    def count(self, kind: EventType) -> int:
        """How often an event stands in the run's log."""
        return sum(event.type is kind for event in self.lifecycle.events(self.run))

    def until_event(self, kind: EventType, count: int) -> None:
        """Returns once an event stands so often in the run's log."""
        until(lambda: self.count(kind) >= count, f"{count} x {kind}")

    def _start(self, name: str) -> WorkerProcess:
        worker = WorkerProcess(
            self.server.url,
            directory=self._directory,
            name=name,
            concurrency=100,
            settings={"agents": "noop_agents"},
            model_url=self._model_url,
            import_paths=[HERE],
        )
        self._stack.callback(worker.close)
        worker.wait_until_ready()
        return worker


def until(true: Callable[[], bool], what: str) -> None:
    """Returns once something is so."""
    deadline = time.monotonic() + _LIMIT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_LIMIT_S:g} s: {what}")
        time.sleep(_POLL_S)


def worker_killed(scene: Scene, *, elected: bool = False) -> float:
    """The process is killed: its sidecar is left to tell."""
    victim = scene.begin("held", elected=elected)
    started = time.perf_counter()
    victim.kill()
    scene.until_event(EventType.MODEL_STARTED, 2)
    return time.perf_counter() - started


def reaper_killed(scene: Scene) -> float:
    """As before, and the process was the elected one."""
    return worker_killed(scene, elected=True)


def machine_lost(scene: Scene) -> float:
    """Process and sidecar are gone at once: only the lease's end tells."""
    victim = scene.begin("held")
    started = time.perf_counter()
    sidecars = [pid for pid in family(victim.pid) if b"sidecar.py" in _command(pid)]
    for pid in (*sidecars, victim.pid):
        os.kill(pid, signal.SIGKILL)
    scene.until_event(EventType.MODEL_STARTED, 2)
    return time.perf_counter() - started


def worker_paused(scene: Scene) -> float:
    """The process is frozen for less than hang_seconds, and goes on by itself; counted from then on."""
    victim = scene.begin("walk")
    victim.pause()
    time.sleep(PAUSE_S)
    before = scene.count(EventType.MODEL_STARTED)
    started = time.perf_counter()
    victim.resume()
    scene.until_event(EventType.MODEL_STARTED, before + 1)
    return time.perf_counter() - started


def worker_drained(scene: Scene) -> float:
    """SIGTERM to a worker in the middle of its runs, until another one goes on with them."""
    victim = scene.begin("walk")
    started = time.perf_counter()
    victim.terminate()
    scene.until_event(EventType.RUN_RESUMED, 1)
    before = scene.count(EventType.MODEL_STARTED)
    scene.until_event(EventType.MODEL_STARTED, before + 1)
    return time.perf_counter() - started


def server_restarted(scene: Scene) -> float:
    """The server is killed and started at once; counted from its first answer to the first run's end."""
    scene.lifecycle.run(agent="looper", goal="before", wait_seconds=_LIMIT_S)
    scene.server.kill()
    scene.server.start()
    started = time.perf_counter()
    result = scene.lifecycle.run(agent="looper", goal="after", wait_seconds=_LIMIT_S)
    if result.summary != "done":
        raise TimeoutError(f"the first run after the restart: {result.terminal_state}")
    return time.perf_counter() - started


FAULTS: dict[str, Callable[[Scene], float]] = {
    "worker killed -> its run goes on elsewhere": worker_killed,
    "the elected reaper killed -> its run goes on elsewhere": reaper_killed,
    "worker's machine lost -> its run goes on elsewhere": machine_lost,
    f"worker paused for {PAUSE_S:g} s, resumed -> its run goes on": worker_paused,
    f"worker drained, {STEP_S:g} s a model call -> its run goes on elsewhere": worker_drained,
    "server restarted -> the first new run has ended": server_restarted,
}


def measure(fault: Callable[[Scene], float]) -> float:
    """Seconds that one fault costs, on a scene of its own."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        return fault(Scene(Path(directory), stack))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5, help="how often each fault strikes")
    times = parser.parse_args().times
    print(f"| fault | median of {times} | longest |\n|---|---|---|")
    for name, fault in FAULTS.items():
        took = [measure(fault) for _ in range(times)]
        print(f"| {name} | {statistics.median(took):.2f} s | {max(took):.2f} s |", flush=True)


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


if __name__ == "__main__":
    main()
