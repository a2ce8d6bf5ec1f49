"""Celery's pool for runs: one event loop, a limit of its own, and slots that a waiting run can lend.

Two threads meet here. The hub's thread (Celery's main thread) receives wake-ups, counts slots, and sends
Celery events, because kombu may be used from there only. The loop's thread executes runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import traceback
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from time import monotonic
from typing import Any, Final, cast

from celery import Celery
from celery.concurrency.base import BasePool
from celery.worker import state
from kombu.utils.imports import symbol_by_name

from retinue.broker.transport import POP_MAX
from retinue.contract.classification import ErrorClassification
from retinue.contract.errors import RetinueError
from retinue.worker.pool.collector import spare_the_collector
from retinue.worker.pool.loop_thread import LoopThread
from retinue.worker.pool.reports import Failed, ReceivedWakeUp, Revoked, Runtime, Succeeded, TaskReport
from retinue.worker.pool.requests import RunRequest
from retinue.worker.pool.task_events import TaskEvents

__all__ = ["Failed", "ReceivedWakeUp", "Revoked", "RunPool", "Runtime", "Succeeded", "TaskReport"]

HOLD_S: Final = 1.0
"""How long a wake-up that was popped for a slot that is gone waits for another, in seconds."""

_REPORT_S: Final = 0.02
"""How long the end of a run may wait for others before the hub is told, in seconds, while there are slots
enough. Each time costs a round of the hub."""

_STOP_SLACK_S: Final = 10.0
"""What the runtime may take beyond the time it was given, in seconds."""

_CANCEL_S: Final = 2.0
"""How long runs that were not handed back may take to notice that they are cancelled, in seconds."""

_START_LOOK_S: Final = 0.2
"""How often a start that takes long looks whether it is still wanted, in seconds."""

_log = logging.getLogger(__name__)


class RunPool(BasePool):
    """Runs wake-ups on a Runtime; `-c` is how many at a time.

    `process_id` is a fresh uuid of this worker process: its private queue and its lease bear it.
    `node_name` is Celery's name of it.
    """

    signal_safe = False
    task_join_will_block = False
    uses_semaphore = False
    body_can_be_buffer = True

    limit: int
    app: Celery

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.process_id = uuid.uuid4().hex
        # Celery's pools run this in each of their processes: initializer(app, hostname).
        self.node_name = str(options.get("initargs", (None, ""))[1])
        self.events = TaskEvents()
        self.consumer: Any = None
        self._runtime: Runtime | None = None
        self._loop: LoopThread | None = None
        self._hub: Any = None
        self._lent = 0
        self._lent_lock = threading.Lock()
        # Of the hub's thread.
        self._running: set[RunRequest] = set()
        self._held: deque[tuple[float, RunRequest]] = deque()
        # Of the loop's thread.
        self._tasks: set[asyncio.Task[None]] = set()
        # From the loop's thread to the hub's.
        self._ended: deque[tuple[RunRequest, TaskReport]] = deque()
        self._hub_is_called = False
        self._hub_will_be_called = False
        self._ended_event = threading.Event()
        # Of the end.
        self._stopping: Future[None] | None = None
        self._waiting = False
        self._no_time_left = False

    @property
    def num_processes(self) -> int:
        """How many runs there may be now: the limit, and what waiting runs have lent."""
        return self.limit + self._lent

    def free_slots(self) -> int:
        """How many more wake-ups may be popped; below 0 after a lent slot was taken back."""
        if not self._takes_work:
            return 0
        return self.num_processes - len(self._running) - len(self._held)

    def lend(self) -> None:
        """A run of this pool waits and needs no slot until `take_back`. From any thread."""
        with self._lent_lock:
            self._lent += 1
        self._wake_hub()

    def take_back(self) -> None:
        """The run goes on. The pool may be one over its limit until some run ends. From any thread."""
        with self._lent_lock:
            self._lent = max(0, self._lent - 1)

    def look_again(self) -> None:
        """What `free_slots` answers may have changed otherwise. From any thread."""
        self._wake_hub()

    def grow(self, n: int = 1) -> None:
        """For `control pool_grow`: raise the limit."""
        self.limit += n

    def shrink(self, n: int = 1) -> None:
        """For `control pool_shrink`: lower the limit; what runs goes on."""
        self.limit = max(1, self.limit - n)

    def on_start(self) -> None:
        """Start the loop and the runtime.

        Raises:
            SystemExit: The runtime refused, with what the user can do about it.
        """
        factory: Any = symbol_by_name(self.app.conf["retinue_runtime"])
        self._loop = LoopThread("retinue-loop")
        self._loop.start()
        try:
            self._runtime = cast(Runtime, factory(self.app, self))
            self._wait_for_start(self._loop.call(self._runtime.start()))
        except RetinueError as error:
            self._loop.close(_CANCEL_S)
            raise SystemExit(f"retinue: {error}") from error
        spare_the_collector()

    def register_with_event_loop(self, loop: Any) -> None:
        """Remember Celery's hub; called again after each reconnect."""
        self._hub = loop

    def attach(self, consumer: Any) -> None:
        """Remember Celery's consumer, whose event dispatcher is another one after each reconnect."""
        self.consumer = consumer
        self.events.attach(consumer)

    def submit(self, request: RunRequest) -> None:
        """Take a popped wake-up: start it, or hold it for a moment if its slot was taken back meanwhile."""
        if not self._takes_work:
            self._put_back(request)
            return
        state.task_reserved(request)
        self.events.received(request)
        if len(self._running) < self.num_processes:
            self._start(request)
            return
        self._held.append((monotonic() + HOLD_S, request))
        self._hub.call_later(HOLD_S, self._put_back_overdue)

    def take_canary(self, nonce: str) -> None:
        """Answer a canary that was popped. It takes no slot, and is no run."""
        if self._takes_work:
            runtime = cast(Runtime, self._runtime)
            cast(LoopThread, self._loop).post(partial(runtime.take_canary, nonce))

    def if_full(self, call: Callable[[], None]) -> None:
        """Call back on the loop's thread if nothing is popped for want of a slot, and for nothing else.

        The question passes the hub: where that hangs, or looks for its broker, it stays without an answer.
        """
        if self._hub is not None:
            self._hub.call_soon(partial(self._if_full, call))

    def revoke(self, run_id: str, *, terminate: bool) -> None:
        """Tell the runtime that a run is to be cancelled."""
        if self._runtime is None:
            return
        try:
            self._runtime.revoke(run_id, terminate)
        except Exception as error:
            _log.error("revoke.failed run=%s %s", run_id, _where(error))

    def on_close(self) -> None:
        """Start to drain at once: Celery stops its consumer next, and only then this pool."""
        if self._stopping is not None or self._loop is None or self._runtime is None:
            return
        drain_s = 0.0 if self._no_time_left else float(self.app.conf["retinue_drain_seconds"])
        self._stopping = self._loop.call(self._runtime.stop(drain_s))
        self._stopping.add_done_callback(lambda _: self._ended_event.set())
        while self._held:
            self._put_back(self._held.popleft()[1])

    def on_stop(self) -> None:
        """Wait until the runs are handed back, and report those that ended."""
        if self._waiting:
            # A second signal, whose handler interrupts the wait below to say that it must be short.
            self._no_time_left = True
            self._ended_event.set()
            return
        self._waiting = True
        self._no_time_left = self._no_time_left or bool(state.should_terminate)
        self.on_close()
        loop = self._loop
        if loop is None or self._stopping is None:
            return
        self._wait_for_runtime(loop)
        loop.post(self._cancel_tasks)
        self._wait_until(lambda: not self._running, _CANCEL_S)
        self.events.flush()
        if not loop.close(_CANCEL_S):
            _log.error("loop.blocked running=%d", len(self._running))

    def on_terminate(self) -> None:
        """A cold shutdown: as `on_stop`, but calls in flight get no time."""
        self._no_time_left = True
        self.on_stop()

    @property
    def _takes_work(self) -> bool:
        return self._stopping is None and self._runtime is not None and self._runtime.takes_work

    def _start(self, request: RunRequest) -> None:
        self._running.add(request)
        request.start()
        state.task_accepted(request)
        self.events.started(request)
        cast(LoopThread, self._loop).post(partial(self._launch, request))

    def _launch(self, request: RunRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._drive(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drive(self, request: RunRequest) -> None:
        report: TaskReport = Failed(ErrorClassification.INTERNAL_ERROR)
        try:
            report = await cast(Runtime, self._runtime).run(request.wakeup)
        except asyncio.CancelledError:
            report = Failed(ErrorClassification.WORKER_LOST)  # by on_stop: the run was not handed back
        except BaseException as error:  # sys.exit() in a tool is that tool's failure
            _log.error("run.crashed run=%s %s", request.wakeup.run_id, _where(error))
        self._ended.append((request, report))
        if self._stopping is not None:
            self._ended_event.set()
        if self.num_processes - len(self._running) < POP_MAX:
            self._call_hub()  # it may wait for this very slot
        elif not self._hub_will_be_called:
            self._hub_will_be_called = True
            asyncio.get_running_loop().call_later(_REPORT_S, self._call_hub_late)

    def _call_hub_late(self) -> None:
        self._hub_will_be_called = False
        if self._ended:
            self._call_hub()

    def _call_hub(self) -> None:
        if not self._hub_is_called:
            self._hub_is_called = True
            self._hub.call_soon(self._report_ended)

    def _report_ended(self) -> None:
        """On the hub's thread: free the slots of runs that ended, and say so."""
        # First the flag: what comes in after the last look must be posted again.
        self._hub_is_called = False
        while self._ended:
            request, report = self._ended.popleft()
            self._running.discard(request)
            try:
                state.task_ready(request)
                self.events.ended(request, report)
            except Exception as error:
                _log.error("report.failed run=%s %s", request.wakeup.run_id, _where(error))
        self._start_held()

    def _start_held(self) -> None:
        while self._held and self._takes_work and len(self._running) < self.num_processes:
            request = self._held.popleft()[1]
            state.task_reserved(request)  # Celery forgets it on a reconnect
            self._start(request)

    def _put_back_overdue(self) -> None:
        self._start_held()
        while self._held and self._held[0][0] <= monotonic():
            self._put_back(self._held.popleft()[1])

    def _put_back(self, request: RunRequest) -> None:
        state.task_ready(request)
        try:
            self.consumer.task_consumer.channel.put_back_message(request.message)
        except Exception as error:
            _log.warning("wakeup.not_put_back run=%s error=%s", request.wakeup.run_id, type(error).__name__)

    def _if_full(self, call: Callable[[], None]) -> None:
        if self._takes_work and self.free_slots() <= 0:
            cast(LoopThread, self._loop).post(call)

    def _wake_hub(self) -> None:
        if self._hub is not None:
            self._hub.call_soon(self._start_held)

    def _wait_for_start(self, starting: Future[None]) -> None:
        """As long as it takes: a store that is away is waited for, unless the worker is told to stop."""
        while not starting.done():
            if state.should_stop is not None or state.should_terminate is not None:
                starting.cancel()
                raise SystemExit("retinue: told to stop before it was ready")
            wait((starting,), _START_LOOK_S)
        starting.result()

    def _wait_for_runtime(self, loop: LoopThread) -> None:
        stopping = cast("Future[None]", self._stopping)
        drain_s = float(self.app.conf["retinue_drain_seconds"])
        self._wait_until(lambda: stopping.done() or self._no_time_left, drain_s + _STOP_SLACK_S)
        if not stopping.done():
            stopping = loop.call(cast(Runtime, self._runtime).stop(0))
            stopping.add_done_callback(lambda _: self._ended_event.set())
            self._wait_until(stopping.done, _STOP_SLACK_S)
        if not stopping.done():
            _log.error("runtime.not_stopped")
        elif (error := stopping.exception()) is not None:
            _log.error("runtime.stop_failed %s", _where(error))

    def _wait_until(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Do the hub's work until something is done: the hub itself has stopped."""
        deadline = monotonic() + timeout_s
        while True:
            self._ended_event.clear()
            self._report_ended()
            left_s = deadline - monotonic()
            if done() or left_s <= 0:
                return
            self._ended_event.wait(left_s)

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _get_info(self) -> dict[str, Any]:
        info = super()._get_info()
        return {
            **info,
            "max-concurrency": self.num_processes,
            "processes": [os.getpid()],
            "process-id": self.process_id,
            "running": len(self._running),
            "lent": self._lent,
        }


def _where(error: BaseException) -> str:
    """Kind and place of an error, without its text: that may quote a prompt."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
    return f"error={type(error).__name__} at={place}"
