"""Where a soak takes place: a server, a model, workers in slots, and the faults that strike them."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import redis
from tests.soak.plan import Fault, FaultKind
from tests.soak.scripts import script_models

from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle
from retinue.store import keys
from retinue.testing.processes import ProcessFailedError
from retinue.testing.proxy import FaultProxy
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

SLOTS = 3
CONCURRENCY = 8
_DRAIN_S = 2.0
_LEAVES_WITHIN_S = 30.0
_LATENCY_S = 0.5
_READY_WITHIN_S = 90.0
_LOOK_EVERY_S = 0.2
_SERVER_STARTS = 4
_NO_SERVER = "no server answers at"
_BEHIND_PROXY = 0
"""The slot whose worker reaches the server through the proxy."""


class SoakStage:
    """Starts everything at once, and ends it with `close`.

    Args:
        directory: Where workers run, write their logs and leave their ledger.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kills = 0
        self.restarts = 0
        self.complaints: list[str] = []
        self._stack = ExitStack()
        self._leaving: list[tuple[WorkerProcess, float]] = []
        self._starts = 0
        self.server = self._stack.enter_context(PrivateServer("valkey", appendonly=True))
        self.model = self._stack.enter_context(ScriptedServer(latency_s=0.05))
        script_models(self.model)
        self._proxy = self._stack.enter_context(FaultProxy(self.server.port))
        self.workers = [self._start(slot) for slot in range(SLOTS)]
        for worker in self.workers:
            worker.wait_until_ready()

    def lifecycle(self, session_id: str) -> SubagentLifecycle:
        """A client's facade."""
        settings = Settings.read(store_url=self.server.url, **_settings())
        facade = SubagentLifecycle(session_id=session_id, settings=settings)
        self._stack.callback(facade.close)
        return facade

    def client(self) -> redis.Redis:
        """A plain client, to look behind the facade."""
        return self.server.client(decode_responses=True)

    def count_leases(self) -> int:
        """How many workers live, as far as the server says."""
        try:
            return sum(1 for _ in self.client().scan_iter(keys.lease("*"), count=10_000))
        except redis.RedisError:
            return 0

    def ledger(self) -> list[str]:
        """What tools wrote, in order."""
        path = self.directory / "ledger.txt"
        return path.read_text().splitlines() if path.exists() else []

    def inflict(self, fault: Fault) -> None:
        """Lets a fault strike; returns once it is over."""
        worker = self.workers[fault.slot]
        match fault.kind:
            case FaultKind.KILL_WORKER:
                self._kill(fault.slot)
            case FaultKind.KILL_REAPER:
                self._kill(self._slot_of_the_reaper(fault.slot))
            case FaultKind.KILL_SIDECAR:
                self._kill_sidecar(worker)
            case FaultKind.RESTART_SERVER:
                self._restart_server(fault.lasts_s)
            case FaultKind.CUT:
                self._cut(fault.lasts_s)
            case FaultKind.DRAIN:
                self._drain(fault.slot)
            case FaultKind.DRAIN_AND_KILL:
                self._drain(fault.slot)
                time.sleep(fault.lasts_s)
                worker.close()
                self.kills += 1
            case FaultKind.PAUSE:
                worker.pause()
                time.sleep(fault.lasts_s)
                worker.resume()
            case FaultKind.HALF_OPEN:
                self._proxy.black_hole()
            case FaultKind.LATENCY:
                self._proxy.delay(_LATENCY_S)
                time.sleep(fault.lasts_s)
                self._proxy.delay(0)

    def tend(self) -> None:
        """As a supervisor does: a worker that found no server at its start is started again."""
        for slot, worker in enumerate(self.workers):
            if worker.running:
                continue
            if _NO_SERVER not in worker.log_text():
                self.complaints.append(f"{worker.name} ended by itself")
            self.workers[slot] = self._start(slot)

    def await_workers(self, least: int) -> None:
        """Returns once so many workers take work; that they do not in good time is a violation."""
        deadline = time.monotonic() + _READY_WITHIN_S
        while sum(worker.is_ready for worker in self.workers) < least:
            if time.monotonic() > deadline:
                self.complaints.append(f"no {least} workers took work within {_READY_WITHIN_S:g} s")
                return
            time.sleep(_LOOK_EVERY_S)
            self.tend()

    def settle(self) -> None:
        """Ends all faults: every slot has a worker that takes work, and who was to leave has left."""
        self._proxy.heal()
        self.tend()
        for worker in self.workers:
            worker.wait_until_ready(60)
        for worker, until in self._leaving:
            try:
                worker.wait(max(until - time.monotonic(), 0.1))
            except ProcessFailedError:
                self.complaints.append(f"{worker.name} did not leave after SIGTERM")

    def close(self) -> None:
        """Ends everything."""
        self._stack.close()

    def _start(self, slot: int) -> WorkerProcess:
        self._starts += 1
        url = self._proxy.url if slot == _BEHIND_PROXY else self.server.url
        worker = WorkerProcess(
            url,
            directory=self.directory,
            name=f"slot{slot}-{self._starts}",
            concurrency=CONCURRENCY,
            settings={"agents": "soak_agents", **_settings()},
            model_url=self.model.base_url,
            import_paths=[Path(__file__).parent],
        )
        self._stack.callback(worker.close)
        return worker

    def _kill(self, slot: int) -> None:
        self.workers[slot].close()
        self.kills += 1
        self.workers[slot] = self._start(slot)

    def _kill_sidecar(self, worker: WorkerProcess) -> None:
        for pid in _children(worker.pid):
            if b"sidecar.py" in _command(pid):
                os.kill(pid, 9)
                self.kills += 1
                return

    def _slot_of_the_reaper(self, otherwise: int) -> int:
        try:
            client = self.client()
            process = client.get(keys.REAPER)
            lease = client.get(keys.lease(str(process)))
        except redis.RedisError:
            return otherwise
        pid = str(lease).rpartition(":")[2]
        return next((n for n, worker in enumerate(self.workers) if str(worker.pid) == pid), otherwise)

    def _restart_server(self, away_s: float) -> None:
        self.server.kill()
        time.sleep(away_s)
        self._start_server()
        self.restarts += 1

    def _start_server(self) -> None:
        """However long it takes to read its file on a busy machine."""
        for _ in range(_SERVER_STARTS - 1):
            with suppress(ProcessFailedError):
                self.server.start()
                return
        self.server.start()

    def _cut(self, lasts_s: float) -> None:
        client = self.client()
        for _ in range(3):
            for kind in ("normal", "pubsub"):
                # A server that could not be started again in time has no connections to cut.
                with suppress(redis.ConnectionError):
                    client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            time.sleep(lasts_s / 3)

    def _drain(self, slot: int) -> None:
        """As a rolling restart does: the next one starts while the old one leaves."""
        worker = self.workers[slot]
        worker.terminate()
        self._leaving.append((worker, time.monotonic() + _LEAVES_WITHIN_S))
        self.workers[slot] = self._start(slot)


def _settings() -> dict[str, object]:
    return {
        "lease_seconds": 1.0,
        "hang_seconds": 10.0,
        "drain_seconds": _DRAIN_S,
        # So often struck, a run may well lose that many workers without being at fault.
        "losses_before_worker_lost": 20,
        "result_ttl_seconds": 7_200,
    }


def _children(pid: int) -> list[int]:
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for children in found for child in children]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
