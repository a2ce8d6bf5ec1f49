"""A rig for the tests of the Celery side: real workers of `dummy_runtime` on a private server."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from celery.events import EventReceiver
from celery.events.state import State

from retinue.broker.app import create_app
from retinue.broker.envelope import WakeUpKind
from retinue.broker.routes import queue_keys
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Waker, WakeUp
from retinue.contract.ids import new_run_id
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer

DEADLINE_S = 40.0
_POLL_S = 0.02
_NAME = "rig"
_HERE = Path(__file__).parent


class Rig:
    """One server, any number of workers, and what they were told to do and did."""

    def __init__(self, server: PrivateServer, directory: Path, stack: ExitStack) -> None:
        self.server = server
        self.client = redis.Redis.from_url(server.url, client_name=_NAME, decode_responses=True)
        stack.callback(self.client.close)
        self.app = create_app(Settings.read(store_url=server.url))
        self.waker = Waker(self.app, sync_link=self)
        self._directory = directory
        self._stack = stack
        self._workers = 0
        self._kept_connections: set[str] = set()

    def execute(self, *command: Any) -> Any:
        """Makes the rig a link for its waker."""
        return self.client.execute_command(*command)

    def celery(self, *arguments: str, **environment: str) -> ChildProcess:
        """Starts `celery -A dummy_runtime` with these arguments."""
        self._workers += 1
        env = {
            **os.environ,
            "RETINUE_STORE_URL": self.server.url,
            "PYTHONPATH": str(_HERE),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        command = [sys.executable, "-m", "celery", "-A", "dummy_runtime", *arguments]
        log = self._directory / f"celery-{self._workers}.log"
        return self._stack.enter_context(ChildProcess(command, log=log, env=env))

    def worker(self, *arguments: str, **environment: str) -> ChildProcess:
        """Starts a worker and returns it once it is ready."""
        name = f"w{self._workers}@test"
        quick = ("--without-mingle", "--without-gossip")
        worker = self.celery("worker", "-n", name, "-l", "info", *quick, *arguments, **environment)
        worker.wait_for_log(r"ready\.$")
        return worker

    def monitor(self) -> Monitor:
        """Starts to listen to Celery's events."""
        monitor = self._stack.enter_context(Monitor(self))
        self._kept_connections = self._connections()
        return monitor

    def wakeup(self, action: str | None = None, *, queue: str = "retinue", priority: int = 6) -> WakeUp:
        """A wake-up of a new run that will do this."""
        run_id = new_run_id(7)
        if action is not None:
            self.client.hset("do", run_id, action)
        return WakeUp("acme", run_id, 1, WakeUpKind.DELEGATE, "researcher", queue, priority, run_id, None)

    def send(self, *wakeups: WakeUp) -> None:
        assert self.waker.send_sync(*wakeups)

    def release(self, *keys: str) -> None:
        """Lets held runs go on."""
        self.client.sadd("released", *keys)

    def list(self, key: str) -> list[str]:
        """What the runs pushed."""
        return self.client.lrange(key, 0, -1)  # pyright: ignore[reportReturnType]

    def queued(self, queue: str = "retinue") -> int:
        """How many wake-ups wait on the broker."""
        return sum(int(str(self.client.llen(key))) for key in queue_keys(queue))

    def wait_for_count(self, key: str, count: int) -> list[str]:
        """Waits until a list has that many entries."""
        self.wait_until(lambda: len(self.list(key)) >= count, f"{count} in {key}")
        return self.list(key)

    def wait_until(self, true: Callable[[], bool], what: str, *, timeout_s: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not true():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
            time.sleep(_POLL_S)

    def kill_connections(self) -> None:
        """Cuts every connection, except the rig's own and those of a monitor started before the workers."""
        for client_id in self._connections() - self._kept_connections:
            self.client.execute_command("CLIENT", "KILL", "ID", client_id, "SKIPME", "yes")

    def _connections(self) -> set[str]:
        return {str(one["id"]) for one in self.client.client_list() if one["name"] != _NAME}


class Monitor:
    """Celery's events, as Flower keeps them."""

    def __init__(self, rig: Rig) -> None:
        self.state = State()
        self.events: list[dict[str, Any]] = []
        self._rig = rig
        self._connection = rig.app.connection_for_read()
        self._receiver = EventReceiver(self._connection, handlers={"*": self._on_event}, app=rig.app)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Monitor:
        before = self._rig.client.execute_command("PUBSUB", "NUMPAT")
        self._thread.start()
        self._rig.wait_until(
            lambda: self._rig.client.execute_command("PUBSUB", "NUMPAT") > before, "a subscription"
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._receiver.should_stop = True
        self._thread.join(DEADLINE_S)
        self._connection.release()

    def wait_for(self, task_id: str, state: str) -> Any:
        """Waits for a task's state, and returns the task as Flower has it."""
        self._rig.wait_until(lambda: self._state_of(task_id) == state, f"{task_id} {state}")
        return self.state.tasks[task_id]

    def kinds(self, task_id: str) -> list[str]:
        """The kinds of a task's events, in order."""
        return [event["type"] for event in self.events if event.get("uuid") == task_id]

    def _state_of(self, task_id: str) -> str | None:
        task = self.state.tasks.get(task_id)
        return None if task is None else task.state

    def _on_event(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.state.event(event)

    def _listen(self) -> None:
        self._receiver.capture(limit=None, timeout=None, wakeup=False)
