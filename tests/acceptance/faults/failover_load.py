"""Trees launched one after the other while the store fails over, and what must have become of them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

from tests.acceptance.run_rig import RunRig, of_kind

from retinue.client import SubagentLifecycle
from retinue.contract import (
    TERMINAL_STATES,
    EventType,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
)

AGENT = "level3"
RUNS = 4
"""Of one tree: a parent and its three leaves."""
_PAUSE_S = 0.15
_LAUNCH_MAX_S = 20.0
"""By when a launch has returned or failed: three seconds for the store, and what a busy machine needs."""


class FailoverLoad:
    """Launches in an OS thread of its own, from `with` to its end.

    Args:
        rig: Where.
        session_id: Of the launches.
        settings: Of the client that launches, where they are not the rig's.
    """

    def __init__(self, rig: RunRig, session_id: str, **settings: object) -> None:
        self.lifecycle: SubagentLifecycle = rig.lifecycle(session_id, **settings)
        self.launched: list[SubagentHandle] = []
        """What `launch` returned."""
        self.unknown: list[SubagentHandle] = []
        """What it raised with: launches that may have happened."""
        self.refused = 0
        self.slowest_s = 0.0
        self._rig = rig
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._launch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        self._thread.join()

    def wait_for_launches(self, more: int) -> None:
        """Returns once so many more launches have returned."""
        count = len(self.launched) + more
        self._rig.wait_until(lambda: len(self.launched) >= count, f"{more} more launches")

    def check(self) -> list[SubagentHandle]:
        """Every run that the store knows ends, once. The answer: which returned launches it does not know."""
        assert self.slowest_s < _LAUNCH_MAX_S
        known = [*self.launched, *self.unknown]
        lost = [handle for handle in known if self._state(handle) is SubagentState.UNKNOWN]
        there = [handle for handle in known if handle not in lost]
        ended = self.lifecycle.wait_all(there, timeout_seconds=45)
        assert [end.handle for end in ended if not end.completed] == []
        for handle in there:
            nodes = self.lifecycle.tree(handle)
            ends = Counter(
                event.run_id for event in of_kind(list(self.lifecycle.events(handle)), EventType.RUN_FINISHED)
            )
            assert len(nodes) == RUNS, handle
            assert all(node.state in TERMINAL_STATES for node in nodes), handle
            assert set(ends.values()) == {1}, handle
            assert len(ends) == RUNS, handle
            assert self._state(handle) is SubagentState.SUCCEEDED
        return [handle for handle in self.launched if handle in lost]

    def _state(self, handle: SubagentHandle) -> SubagentState:
        return self.lifecycle.status(handle).state

    def _launch(self) -> None:
        number = 0
        while not self._ends.wait(_PAUSE_S):
            number += 1
            started = time.monotonic()
            try:
                self.launched.append(self.lifecycle.launch(agent=AGENT, goal=f"goal {number}"))
            except SubagentLifecycleError as error:
                self.refused += 1
                if error.handle is not None:
                    self.unknown.append(error.handle)
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)
