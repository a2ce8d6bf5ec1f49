"""Retinue beside a bare Celery application, in one run: `make bench`.

Both use the same server binary, the same machine and the same run; only the ratios mean anything
elsewhere. `--short` takes seconds and is for CI, where nothing is asserted about the figures.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from celery import group
from celery.result import ResultSet
from imports import import_ratio
from processes import cpu_seconds, resident_kib

from retinue.broker.settings import Settings
from retinue.client import SubagentHandle, SubagentLifecycle
from retinue.contract import partition_of
from retinue.store import keys
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Turn
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess, worker_environment

HERE = Path(__file__).parent
ITERATIONS = 10
BATCH = 100
PROCESSES = 2
"""Of each system that work on jobs: children of one prefork worker, workers of Retinue."""
SESSION = "bench"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each is measured."""

    throughput: int
    latency: int
    loops: int
    in_flight: int
    imports: int


FULL = Sizes(throughput=3_000, latency=300, loops=100, in_flight=2_000, imports=7)
SHORT = Sizes(throughput=200, latency=30, loops=10, in_flight=100, imports=1)


@dataclass(frozen=True, slots=True)
class Flow:
    """One system under test: how to start jobs, and how to wait for their results."""

    start: Callable[[], object]
    finish: Callable[[object], None]
    start_many: Callable[[int], Sequence[object]]
    finish_many: Callable[[Sequence[object]], None]
    waiting: Callable[[], int]
    worker_pids: Sequence[int]

    @property
    def cpu_seconds(self) -> float:
        """Of the workers so far."""
        return sum(map(cpu_seconds, self.worker_pids))


def throughput(flow: Flow, count: int) -> tuple[float, float]:
    """Jobs per second from the first start to the last result, each by a call, and worker CPU ms per job."""
    before, started = flow.cpu_seconds, time.perf_counter()
    jobs = [flow.start() for _ in range(count)]
    for job in jobs:
        flow.finish(job)
    elapsed = time.perf_counter() - started
    return count / elapsed, (flow.cpu_seconds - before) / count * 1000


def batches(flow: Flow, count: int) -> float:
    """The same rate where each call of the client starts, or collects, a hundred."""
    started = time.perf_counter()
    groups = [flow.start_many(BATCH) for _ in range(count // BATCH)]
    for jobs in groups:
        flow.finish_many(jobs)
    return count / (time.perf_counter() - started)


def drain(flow: Flow, count: int) -> float:
    """Jobs per second of workers that find them waiting: they are stopped while the jobs are started."""
    for pid in flow.worker_pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(count // BATCH):
            flow.start_many(BATCH)
    finally:
        for pid in flow.worker_pids:
            os.kill(pid, signal.SIGCONT)
    started = time.perf_counter()
    _until(lambda: flow.waiting() == 0)
    return count / (time.perf_counter() - started)


def latency(flow: Flow, count: int) -> tuple[float, float]:
    """Start to result in hand, one at a time: p50 and p99 in ms."""
    times: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        flow.finish(flow.start())
        times.append((time.perf_counter() - started) * 1000)
    cuts = statistics.quantiles(times, n=100)
    return cuts[49], cuts[98]


def measure_bare(server: PrivateServer, directory: Path, sizes: Sizes) -> dict[str, float]:
    """The bare application."""
    os.environ["BARE_URL"] = server.url
    from bare_app import noop

    environment = worker_environment({}, import_paths=[HERE]) | {"BARE_URL": server.url}
    command = [sys.executable, "-m", "celery", "-A", "bare_app", "worker", "-c", str(PROCESSES)]
    command += ["--loglevel", "INFO"]
    log = (directory / "bare.log").open("wb")
    with (
        log,
        server.client() as client,
        subprocess.Popen(command, env=environment, cwd=directory, stderr=log) as worker,
    ):
        try:
            flow = Flow(
                start=lambda: noop.delay("x"),
                finish=lambda job: job.get(timeout=120),  # pyright: ignore
                start_many=lambda n: group(noop.s("x") for _ in range(n)).apply_async().results,
                finish_many=lambda jobs: ResultSet(list(jobs)).join_native(timeout=120),  # pyright: ignore
                waiting=lambda: int(client.llen("celery")) + int(client.hlen("unacked")),
                worker_pids=[worker.pid],
            )
            for _ in range(20):
                flow.finish(flow.start())
            return _common(flow, sizes)
        finally:
            worker.terminate()


def measure_retinue(server: PrivateServer, directory: Path, sizes: Sizes) -> dict[str, float]:
    """Retinue: the same no-op, then what only Retinue has."""
    with ScriptedServer() as model:
        model.script("looper").reply(_ten_iterations)
        workers = [
            WorkerProcess(
                server.url,
                name=f"worker{number}",
                directory=directory,
                concurrency=sizes.in_flight + 500,
                settings={"agents": "noop_agents"},
                model_url=model.base_url,
                import_paths=[HERE],
            )
            for number in range(PROCESSES)
        ]
        try:
            for worker in workers:
                worker.wait_until_ready()
            return _measure_workers(server, workers, sizes)
        finally:
            for worker in workers:
                worker.close()


def _common(flow: Flow, sizes: Sizes) -> dict[str, float]:
    """What both are measured by."""
    rate, cpu_ms = throughput(flow, sizes.throughput)
    p50, p99 = latency(flow, sizes.latency)
    batched = batches(flow, sizes.throughput)
    drained = drain(flow, sizes.throughput)
    return {"rate": rate, "cpu_ms": cpu_ms, "p50": p50, "p99": p99, "batched": batched, "drained": drained}


def _measure_workers(
    server: PrivateServer, workers: Sequence[WorkerProcess], sizes: Sizes
) -> dict[str, float]:
    lifecycle = SubagentLifecycle(session_id=SESSION, settings=Settings.read(store_url=server.url))

    def flow_of(agent: str) -> Flow:
        requests = [{"agent": agent, "goal": "x"}] * BATCH
        return Flow(
            start=lambda: lifecycle.launch(agent=agent, goal="x"),
            finish=lambda job: _result(lifecycle, job),
            start_many=lambda n: lifecycle.launch_many(requests[:n]),
            finish_many=lambda jobs: _results(lifecycle, jobs),
            waiting=lambda: _unfinished(server),
            worker_pids=[worker.pid for worker in workers],
        )

    noop = flow_of("noop")
    for _ in range(20):
        noop.finish(noop.start())
    memory, scripts = _used_memory(server), _script_calls(server)
    throughput(noop, sizes.throughput)
    figures = {
        "memory": (_used_memory(server) - memory) / sizes.throughput,
        "trips_noop": (_script_calls(server) - scripts) / sizes.throughput,
        **_common(noop, sizes),
    }
    scripts = _script_calls(server)
    throughput(flow_of("looper"), sizes.loops)
    figures["trips_loop"] = (_script_calls(server) - scripts) / sizes.loops
    before = sum(resident_kib(worker.pid) for worker in workers)
    handles = [lifecycle.launch(agent="sleeper", goal="x") for _ in range(sizes.in_flight)]
    _until(lambda: lifecycle.status(handles[-1]).state.value == "RUNNING")
    after = sum(resident_kib(worker.pid) for worker in workers)
    figures["resident"] = (after - before) / sizes.in_flight
    return figures


def _result(lifecycle: SubagentLifecycle, job: object) -> None:
    assert isinstance(job, SubagentHandle)
    state = lifecycle.wait(job, timeout_seconds=120)
    assert state.completed, "the run did not end within 120 s"
    assert lifecycle.result(job).ready


def _results(lifecycle: SubagentLifecycle, jobs: Sequence[object]) -> None:
    states = lifecycle.wait_all(jobs, timeout_seconds=120)
    assert all(state.completed for state in states), "a run did not end within 120 s"
    assert all(result.ready for result in lifecycle.results(jobs))


def _ten_iterations(request: object) -> Turn:
    from retinue.testing.scripts import Call

    turn: int = request.turn  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return Turn(text="done") if turn + 1 >= ITERATIONS else Turn(calls=(Call("look", {"query": "x"}),))


def _used_memory(server: PrivateServer) -> int:
    with server.client() as client:
        return int(client.info("memory")["used_memory"])


def _script_calls(server: PrivateServer) -> int:
    with server.client() as client:
        stats = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


def _unfinished(server: PrivateServer) -> int:
    """Runs of the bench's session that are queued or on the worker."""
    partition = partition_of("_", SESSION)
    with server.client(decode_responses=True) as client:
        own = [client.scard(keys.owned(partition, name)) for name in client.hkeys(keys.WORKERS)]
        return int(client.zcard(keys.queued(partition, "retinue"))) + sum(map(int, own))


def _until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not within 60 s"
        time.sleep(0.01)


def table(bare: dict[str, float], ours: dict[str, float], imports: tuple[float, float, float]) -> str:
    """The figures as Markdown."""

    def row(name: str, theirs: float | None, own: float, unit: str, *, more_is_better: bool = False) -> str:
        if theirs is None:
            return f"| {name} | - | {own:,.2f} {unit} | - |"
        ratio = own / theirs if more_is_better else theirs / own
        return f"| {name} | {theirs:,.2f} {unit} | {own:,.2f} {unit} | {ratio:.1f} x better |"

    rows = [
        f"| measure | bare Celery (prefork -c {PROCESSES}, Redis results) "
        f"| Retinue ({PROCESSES} workers) | ratio |",
        "|---|---|---|---|",
        row("no-op runs end to end", bare["rate"], ours["rate"], "/s", more_is_better=True),
        row("the same, 100 by each call", bare["batched"], ours["batched"], "/s", more_is_better=True),
        row("backlog of no-op runs drained", bare["drained"], ours["drained"], "/s", more_is_better=True),
        row("launch to result, p50", bare["p50"], ours["p50"], "ms"),
        row("launch to result, p99", bare["p99"], ours["p99"], "ms"),
        row("worker CPU per run", bare["cpu_ms"], ours["cpu_ms"], "ms"),
        row("store scripts per no-op run, launch and reads included", None, ours["trips_noop"], ""),
        row(f"store scripts per run of {ITERATIONS} iterations, likewise", None, ours["trips_loop"], ""),
        row("the same per iteration", None, ours["trips_loop"] / ITERATIONS, ""),
        row("store memory per finished run", None, ours["memory"], "bytes"),
        row("resident memory per run in flight", None, ours["resident"], "KiB"),
        f"| `import retinue.client` against `import celery, redis, pydantic` | {imports[1]:.2f} s "
        f"| {imports[0]:.2f} s | {imports[2]:.2f} of it |",
    ]
    return "\n".join(rows)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes")
    sizes = SHORT if parser.parse_args().short else FULL
    sys.path.insert(0, str(HERE))
    with tempfile.TemporaryDirectory() as name:
        with PrivateServer("valkey") as server:
            bare = measure_bare(server, Path(name), sizes)
        with PrivateServer("valkey") as server:
            ours = measure_retinue(server, Path(name), sizes)
    print(table(bare, ours, import_ratio(sizes.imports)))


if __name__ == "__main__":
    main()
