"""A rig for the tests of whole runs: a store, a scripted model, real workers, and what they did."""

from __future__ import annotations

import json
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import pytest
import redis

from retinue.broker.app import create_app
from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle, SubagentNode
from retinue.client.dispatch.connections import connections_for
from retinue.client.reading import answers
from retinue.contract import Event, EventType, SubagentHandle, SubagentResult, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import reading
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerOptions, WorkerProcess

DEADLINE_S = 45.0
_POLL_S = 0.02
_HERE = Path(__file__).parent
_LEDGER = "ledger.txt"
_OF_FAULTS = re.compile(r": ERROR/|^ +File |dead|gone|lost")


class RunRig:
    """One store, one scripted model, any number of workers.

    Args:
        server: Store and, unless `settings` name another, broker.
        model: The provider `openai` of every worker.
        directory: Where workers run, and tools leave their traces.
        stack: Ends with the rig; closes what it started.
        agents: The module with the workers' agents.
        settings: Of workers and clients alike.
    """

    def __init__(
        self,
        server: PrivateServer,
        model: ScriptedServer,
        directory: Path,
        stack: ExitStack,
        *,
        agents: str,
        **settings: object,
    ) -> None:
        self.server = server
        self.model = model
        self.workers: list[WorkerProcess] = []
        self._directory = directory
        self._stack = stack
        self._settings = {"agents": agents, "lease_seconds": 1.0, **settings}

    @property
    def settings(self) -> Settings:
        """As a client of the rig has them."""
        return Settings.read(store_url=self.server.url, **self._client_settings())

    @cached_property
    def store(self) -> redis.Redis:
        """A plain client, to look behind the facade."""
        return self.server.client(decode_responses=True)

    def worker(self, *, ready: bool = True, **options: Unpack[WorkerOptions]) -> WorkerProcess:
        """Starts a worker; unless `ready` is False, returns once it takes work."""
        options.setdefault("name", f"worker{len(self.workers) + 1}")
        options["settings"] = {**self._settings, **options.get("settings", {})}
        options["model_url"], options["import_paths"] = self.model.base_url, [_HERE]
        worker = WorkerProcess(self.server.url, directory=self._directory, **options)
        self.workers.append(worker)
        self._stack.callback(self._close, worker)
        if ready:
            worker.wait_until_ready(DEADLINE_S)
        return worker

    def keep_workers(self, count: int, *, concurrency: int) -> list[WorkerProcess]:
        """The workers that still run, with as many started or killed that there are `count`."""
        running = [worker for worker in self.workers if worker.running]
        for worker in running[count:]:
            worker.close()
        del running[count:]
        new = [self.worker(ready=False, concurrency=concurrency) for _ in range(count - len(running))]
        for worker in new:
            worker.wait_until_ready(DEADLINE_S)
        return [*running, *new]

    def active(self, worker: WorkerProcess) -> list[str]:
        """The tasks that a worker says it is working on."""
        app = create_app(self.settings)
        try:
            answer = app.control.inspect([f"{worker.name}@{socket.gethostname()}"], timeout=10).active()
        finally:
            app.close()
        assert answer, f"{worker.name} does not answer"
        return [task["id"] for tasks in answer.values() for task in tasks]

    def lifecycle(self, session_id: str = "test", **settings: Any) -> SubagentLifecycle:
        """A facade of the rig's settings."""
        own = Settings.read(store_url=self.server.url, **{**self._client_settings(), **settings})
        facade = SubagentLifecycle(session_id=session_id, settings=own)
        self._stack.callback(facade.close)
        return facade

    def result(
        self, lifecycle: SubagentLifecycle, handle: SubagentHandle, *, timeout_s: float = DEADLINE_S
    ) -> SubagentResult:
        """The result, once the run has ended."""
        ended = lifecycle.wait(handle, timeout_seconds=timeout_s)
        assert ended.completed, f"not within {timeout_s} s: {lifecycle.status(handle)}"
        return lifecycle.result(handle)

    def succeeded(
        self, lifecycle: SubagentLifecycle, handle: SubagentHandle, *, timeout_s: float = DEADLINE_S
    ) -> SubagentResult:
        """The result of a run that has to succeed; of one that does not, what happened to it is told."""
        result = self.result(lifecycle, handle, timeout_s=timeout_s)
        if result.terminal_state is not SubagentState.SUCCEEDED:
            told = [json.dumps(event.to_dict()) for event in lifecycle.events(handle)]
            for worker in self.workers:
                lines = worker.log_text().splitlines()
                told += [line for line in lines if handle.subagent_id in line or _OF_FAULTS.search(line)]
            pytest.fail("\n".join((f"{result.terminal_state}, not SUCCEEDED: {result.summary}", *told)))
        return result

    def ledger(self) -> list[str]:
        """What tools wrote: one line each time one ran, idempotency key first."""
        path = self._directory / _LEDGER
        return path.read_text().splitlines() if path.exists() else []

    def trace(self, name: str) -> Path:
        """A file in the workers' directory."""
        return self._directory / name

    def wait_for_trace(self, name: str) -> str:
        """A file's content, once a tool has written it."""
        path = self._directory / name
        self.wait_until(path.exists, f"the file {name}")
        return path.read_text()

    def wait_for_event(
        self, lifecycle: SubagentLifecycle, handle: object, kind: EventType, *, count: int = 1
    ) -> Event:
        """The tree's `count`-th event of a kind, once it has happened."""

        def found() -> list[Event]:
            return [event for event in lifecycle.events(handle) if event.type is kind]

        self.wait_until(lambda: len(found()) >= count, f"{count} x {kind}")
        return found()[count - 1]

    def wait_until(self, true: Callable[[], bool], what: str, *, timeout_s: float = DEADLINE_S) -> None:
        """Returns once something is so."""
        deadline = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            time.sleep(_POLL_S)

    def handle_of(self, run_id: str) -> SubagentHandle:
        """The handle of a run, whoever launched it."""
        connections = connections_for(self.settings)
        found = connections.store.run(reading.read_result(RunKey("_", run_id)))
        assert found is not None
        return answers.handle_of(connections.keyring.ring(), "_", run_id, found)

    def goal_of(self, run_id: str) -> str:
        """What a run was asked to do, as the store keeps it."""
        stored = self.store.get(keys.record("_", run_id) + ":req")
        assert isinstance(stored, str)
        return json.loads(stored)["request"]["goal"]

    def _client_settings(self) -> dict[str, Any]:
        return {name: value for name, value in self._settings.items() if name != "agents"}

    def _close(self, worker: WorkerProcess) -> None:
        worker.close()
        print(worker.failure("was closed"))


@contextmanager
def run_rig(
    directory: Path, *, agents: str, appendonly: bool = False, latency_s: float = 0.0, **settings: object
) -> Generator[RunRig]:
    """A rig with a server and a scripted model of its own, and no worker yet."""
    with ExitStack() as stack:
        server = stack.enter_context(PrivateServer("valkey", appendonly=appendonly))
        model = stack.enter_context(ScriptedServer(latency_s=latency_s))
        yield RunRig(server, model, directory, stack, agents=agents, **settings)


def of_kind(events: Sequence[Event], kind: EventType) -> list[Event]:
    """The events of one kind, in order."""
    return [event for event in events if event.type is kind]


def count_states(nodes: Sequence[SubagentNode]) -> Counter[str]:
    """How many runs stand in each state."""
    return Counter(node.state.value for node in nodes)
