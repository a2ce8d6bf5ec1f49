"""The load of a soak: clients that launch, steer, cancel, decide and wait, and note what they were told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from tests.soak.scripts import swarm
from tests.soak.stage import SoakStage

from retinue.client import SubagentHandle, SubagentLifecycle
from retinue.contract import (
    TERMINAL_STATES,
    ErrorCode,
    SteerState,
    StoreError,
    SubagentLifecycleError,
    SubagentState,
)

T = TypeVar("T")
CLIENTS = 12
SESSIONS = 4
ENDS_WITHIN_S = 120.0
"""How long a tree may take, with all that may befall it."""

_PATIENCE_S = 60.0
_WEIGHTS = {"leaf": 2, "boss": 3, "chief": 2, "clerk": 3, "waiter": 2, "walker": 4, "swarm": 2}
_AWAY = {ErrorCode.STORE_UNAVAILABLE, ErrorCode.LAUNCH_UNKNOWN}


@dataclass
class Deed:
    """One tree, and what a client was told of it.

    Args:
        goal: Its root's.
        session: Which session's.
        kind: The root's agent, or `swarm`.
        handle: As launched.
        steers: Ids of those that were accepted.
        cancelled: Whether a cancel was accepted.
        decided: By request id whether it was approved, of what was accepted.
        ended: The state in which the client saw it end; None = it did not.
        stuck: How it stood then, and how many workers there were.
    """

    goal: str
    session: int
    kind: str
    handle: SubagentHandle
    steers: list[str] = field(default_factory=list[str])
    cancelled: bool = False
    decided: dict[str, bool] = field(default_factory=dict[str, bool])
    ended: SubagentState | None = None
    stuck: str = ""


class Load:
    """Clients in OS threads of their own, from `start` until `finish`.

    Args:
        stage: Where.
        seed: Of what they choose.
    """

    def __init__(self, stage: SoakStage, seed: int) -> None:
        self.deeds: list[Deed] = []
        self.complaints: list[str] = []
        self.lifecycles = [stage.lifecycle(f"soak-{number}") for number in range(SESSIONS)]
        self._stage = stage
        self._seed = seed
        self._number = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"client-{n}", daemon=True) for n in range(CLIENTS)
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Launches no more; returns once all that was launched has ended, or should have."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * ENDS_WITHIN_S)
            if thread.is_alive():
                self.complaints.append(f"{thread.name} hangs in a call of the client")

    @cached_property
    def _swarm(self) -> Any:
        return swarm()

    def _work(self) -> None:
        while not self._stopping.is_set():
            with self._lock:
                self._number += 1
                number = self._number
            try:
                self._tree(number)
            except Exception as fault:
                self.complaints.append(f"tree {number}: {type(fault).__name__}: {fault}")

    def _tree(self, number: int) -> None:
        random = Random(f"{self._seed}/{number}")
        kind = random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        session = random.randrange(SESSIONS)
        lifecycle, goal = self.lifecycles[session], f"t{number}"
        request = {
            "agent": self._swarm if kind == "swarm" else kind,
            "goal": goal,
            "correlation_id": goal,
            "on_duplicate": "return",
        }
        handle = _patiently(lambda: lifecycle.launch(request))
        deed = Deed(goal, session, kind, handle)
        self.deeds.append(deed)
        if kind == "clerk":
            self._decide(lifecycle, deed, random)
        if kind == "walker" or random.random() < 0.2:
            self._interfere(lifecycle, deed, random)
        ended = _patiently(lambda: lifecycle.wait(handle, timeout_seconds=ENDS_WITHIN_S))
        if ended.completed:
            deed.ended = ended.state
        else:
            deed.stuck = _patiently(lambda: self._how_it_stands(lifecycle, deed))

    def _how_it_stands(self, lifecycle: SubagentLifecycle, deed: Deed) -> str:
        live = [node for node in lifecycle.tree(deed.handle) if node.state not in TERMINAL_STATES]
        phases = ", ".join(f"{node.agent} {node.phase}" for node in live)
        return f"{phases}; {self._stage.count_leases()} workers"

    def _decide(self, lifecycle: SubagentLifecycle, deed: Deed, random: Random) -> None:
        _patiently(lambda: lifecycle.wait(deed.handle, timeout_seconds=ENDS_WITHIN_S, until="asked"))
        for request in _patiently(lambda: lifecycle.pending(deed.handle)):
            approves = random.random() < 0.7
            decide = lifecycle.approve if approves else lifecycle.deny
            if _patiently(
                lambda decide=decide, request=request: decide(deed.handle, request.request_id)
            ).accepted:
                deed.decided[request.request_id] = approves

    def _interfere(self, lifecycle: SubagentLifecycle, deed: Deed, random: Random) -> None:
        for number in range(random.randrange(3)):
            self._stopping.wait(random.uniform(0, 0.4))
            name = f"{deed.goal}-{number}"
            receipt = _patiently(
                lambda name=name: lifecycle.send_steer(deed.handle, f"steer {name}", steer_id=name)
            )
            if receipt.state in (SteerState.QUEUED, SteerState.DELIVERED):
                deed.steers.append(name)
        if random.random() < 0.3:
            self._stopping.wait(random.uniform(0, 0.8))
            deed.cancelled = _patiently(lambda: lifecycle.cancel(deed.handle, "soak")).accepted


def _patiently(call: Callable[[], T]) -> T:
    """What a call gives once the store is there; each call made here may be repeated."""
    failing_since: float | None = None
    while True:
        try:
            return call()
        except (StoreError, SubagentLifecycleError) as fault:
            # Not from the call's begin: it may have waited for long before.
            failing_since = failing_since or time.monotonic()
            is_away = isinstance(fault, StoreError) or fault.code in _AWAY
            if not is_away or time.monotonic() > failing_since + _PATIENCE_S:
                raise
            time.sleep(0.1)
