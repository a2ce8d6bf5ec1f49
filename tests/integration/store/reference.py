"""A small model of the store: what each operation must answer, and how every run must stand after it.

It knows no keys, no clock and no JSON. Each method changes the model as the operation should change the
store, and gives the answer in a few words, as `told` puts the store's own answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from retinue.contract import SubagentState
from retinue.store.call import RunKey
from retinue.store.replies import Fence

STALE = "stale"
LOSSES = 3
"""Counted losses, or times a process disowned a run within one iteration, that end it."""
MAX_ITERATIONS = 4
MAX_DEPTH = 2
MAX_LIVE = 3
MAX_TREE = 7
"""Children of one tree, ever."""


class Place(Enum):
    """Where a run is."""

    QUEUED = auto()
    HELD = auto()
    WAITING = auto()
    ENDED = auto()


class Kind(Enum):
    """What a call of a response is."""

    TOOL = auto()
    CHILD = auto()
    APPROVAL = auto()
    INPUT = auto()


@dataclass(eq=False)
class Run:
    """One run as the model has it; `slot` is its parent's call, None = none waits for it."""

    key: RunKey
    parent: Run | None
    slot: str | None
    abandon: bool
    path: str
    thread: str
    has_deadline: bool
    children: list[Run] = field(default_factory=list["Run"])
    place: Place = Place.QUEUED
    state: SubagentState = SubagentState.PENDING
    fence: Fence | None = None
    process: str = ""
    epoch: int = 0
    losses: int = 0
    disowned: tuple[int, int] = (0, 0)
    at_risk: bool = False
    iteration: int = 0
    recorded: int = 0
    calls: dict[str, Kind] = field(default_factory=dict[str, Kind])
    moved: bool = True
    journal: set[str] = field(default_factory=set[str])
    waits: set[str] = field(default_factory=set[str])
    requests: dict[str, str] = field(default_factory=dict[str, str])
    steers: list[str] = field(default_factory=list[str])
    handed_out: int = 0
    cancelled: bool = False
    interrupted: bool = False
    late: bool = False
    expired: bool = False
    refused: bool = False
    """Whether the children of its present response were refused."""

    @property
    def root(self) -> Run:
        return self if self.parent is None else self.parent.root

    @property
    def depth(self) -> int:
        return self.path.count("/") - 1

    @property
    def ended(self) -> bool:
        return self.place is Place.ENDED

    @property
    def live_children(self) -> int:
        return sum(not child.ended for child in self.children)

    @property
    def seen(self) -> int:
        """Steers that a recorded response has seen."""
        return sum(steer.startswith("d") for steer in self.steers)

    @property
    def open_requests(self) -> list[str]:
        return [slot for slot, letter in self.requests.items() if letter == "o"]

    @property
    def open_calls(self) -> list[str]:
        return [slot for slot in self.calls if slot not in self.journal]

    @property
    def awaits_human(self) -> bool:
        """Whether it, or a run below it that somebody above may wait for, asks a human."""
        return not self.ended and (
            bool(self.open_requests) or any(child.awaits_human for child in self.children)
        )

    @property
    def is_late(self) -> bool:
        """Whether its deadline has passed, which stands still while a human is awaited."""
        return self.late and not self.awaits_human

    @property
    def marked(self) -> bool:
        """Under a cancel, or the end of an ancestor that it follows."""
        above, run, follows = self.cancelled, self, True
        while run.parent is not None:
            follows = follows and not run.abandon and not run.parent.interrupted
            run = run.parent
            above = above or run.cancelled or (run.ended and follows)
        return above

    @property
    def stops(self) -> bool:
        """Marked, or told to stop alone."""
        return self.marked or self.interrupted

    def subtree(self) -> Iterator[Run]:
        """Itself and all below, parents first."""
        yield self
        for child in self.children:
            yield from child.subtree()

    # What a worker does.

    def claim(self, fence: Fence, process: str, *, alone: bool) -> str:
        if self.ended:
            return "not claimed GONE" if self.expired else f"ended {self.state}"
        if self.place is not Place.QUEUED:
            return "not claimed NOT_QUEUED"
        if self.marked:
            return self._end(SubagentState.CANCELLED)
        if self.is_late or self.interrupted:
            return self._end(SubagentState.INTERRUPTED)
        if self.losses and not alone:
            return "not claimed SUSPECT"
        first = self.state is SubagentState.PENDING
        self.state = SubagentState.STARTING if first else SubagentState.RUNNING
        self.place, self.fence, self.process, self.at_risk = Place.HELD, fence, process, True
        self.epoch += 1
        return f"claimed {self.epoch}"

    def boundary(self, fence: Fence) -> str:
        if stop := self._stopped(fence):
            return stop
        if self.recorded >= MAX_ITERATIONS:
            return "stopped MAX_ITERATIONS"
        if not self.moved:
            self.moved, self.journal = True, set()
        self.state, self.iteration, self.at_risk = SubagentState.RUNNING, self.recorded + 1, False
        self.handed_out = len(self.steers)
        return f"passed {self.iteration} {self.handed_out - self.seen}"

    def record_model(self, fence: Fence, kinds: Sequence[Kind]) -> str:
        if fence != self.fence:
            return STALE
        for n in range(self.seen, self.handed_out):
            self.steers[n] = f"d{self.iteration}"
        self.recorded = self.iteration
        self.calls = {f"{self.recorded}:{n}": kind for n, kind in enumerate(kinds)}
        self.moved, self.at_risk, self.refused = not kinds, bool(kinds), False
        return "recorded"

    def record_tool(self, fence: Fence, slot: str) -> str:
        if fence != self.fence:
            return STALE
        self.journal.add(slot)
        return "recorded"

    def begin(self, fence: Fence, slot: str) -> str:
        if fence != self.fence:
            return STALE
        if self.requests.get(slot) not in ("a", "u"):
            return "not approved"
        if stop := self._stopped(fence):
            return stop
        first, self.requests[slot] = self.requests[slot] == "a", "u"
        return "begun" if first else "used"

    def suspend(self, fence: Fence) -> str:
        if stop := self._stopped(fence):
            return stop
        waits = self.open_calls
        if not waits:
            return "ready"
        if approved := [slot for slot in waits if self.requests.get(slot) in ("a", "u")]:
            return f"approved {' '.join(approved)}"
        for slot in waits:
            if self.calls[slot] in (Kind.APPROVAL, Kind.INPUT):
                self.requests.setdefault(slot, "o")
        self._leave(Place.WAITING)
        self.state, self.waits = SubagentState.RUNNING, set(waits)
        return f"suspended {len(waits)}"

    def finish(self, fence: Fence, state: SubagentState, *, natural: bool) -> str:
        if fence != self.fence:
            return STALE
        goes_on = self.recorded < MAX_ITERATIONS and not self.is_late and not self.stops
        if natural and len(self.steers) > self.seen and goes_on:
            return "overtaken"
        return self._end(state)

    def hand_back(self, fence: Fence) -> str:
        if fence != self.fence:
            return STALE
        self._queue()
        return "queued"

    def hand_off(self, fence: Fence) -> str:
        if stop := self._stopped(fence):
            return stop
        self.journal |= set(self.calls)
        self._queue()
        return "handed off"

    def take_over(self, process: str, how: str) -> str:
        if self.place is not Place.HELD or self.process != process:
            return "nothing"
        if how == "dead":
            self.losses += self.at_risk
        if how == "idle":
            iteration, times = self.disowned
            self.disowned = (self.recorded, times + 1 if iteration == self.recorded else 1)
        if self.losses >= LOSSES or (how == "idle" and self.disowned[1] >= LOSSES):
            return self._end(SubagentState.FAILED)
        self._queue()
        return "queued"

    def launch(self, fence: Fence, wanted: Sequence[Run]) -> str:
        """Children, by the id, slot and ways that they have in `wanted`; it joins those that are new."""
        known = {child.key: child for child in self.children}
        fresh = [child for child in wanted if child.key not in known or known[child.key].expired]
        if fresh and fence != self.fence:
            return "parent STALE"
        new = [child for child in fresh if child.slot is None or child.slot not in self.journal]
        if refusal := self._refusal(len(new)):
            self.refused = True
            return refusal
        outcomes = ["new" if child in new else "done" if child in fresh else "repeat" for child in wanted]
        for child in new:
            child.path = f"{self.path}{len(self.children)}/"
            self.children.append(child)
        return f"launched {' '.join(outcomes)}"

    # What clients and the reaper do.

    def steer(self) -> str:
        if self.ended:
            return "UNKNOWN" if self.expired else "TERMINAL"
        if self.stops:
            return "CANCELLED"
        self.steers.append("q")
        return "QUEUED"

    def cancel(self) -> str:
        if self.ended:
            return "UNKNOWN" if self.expired else "TERMINAL"
        self.cancelled = True
        return "ACCEPTED"

    def interrupt(self) -> str:
        if self.ended:
            return "UNKNOWN" if self.expired else "TERMINAL"
        if self.stops:
            return f"ACCEPTED {SubagentState.CANCEL_REQUESTED if self.marked else self.state}"
        self.interrupted = True
        if self.place is Place.HELD:
            return f"ACCEPTED {self.state}"
        return self._end(SubagentState.INTERRUPTED)

    def sweep(self) -> None:
        if self.interrupted and not self.marked:
            if self.place is Place.QUEUED:
                self._end(SubagentState.INTERRUPTED)
        elif not self.expired:
            for run in self.subtree():
                if run.place in (Place.QUEUED, Place.WAITING) and run.marked:
                    run._end(SubagentState.CANCELLED)

    def timer(self) -> str:
        if self.ended and (self.expired or not self.live_children):
            return "nothing"
        if self.ended or self.stops:
            return "needs sweep"
        return self._end(SubagentState.INTERRUPTED) if self.is_late else "nothing"

    def decide(self, slot: str, how: str) -> str:
        """`how`: a approve, d deny, i answer."""
        if self.ended:
            return "unknown" if self.expired else "ended"
        if self.stops:
            return "cancelled"
        if self.requests.get(slot) != "o":
            return "decided" if slot in self.requests else "unknown"
        kind = self.calls[slot]
        if (how == "a" and kind is Kind.INPUT) or (how == "i" and kind is Kind.APPROVAL):
            return "wrong_kind"
        self.requests[slot] = how
        if how == "a":
            return "accepted" + self._answered(slot, at_once=True)
        self.journal.add(slot)
        return "accepted" + self._answered(slot)

    # What follows from it.

    def _refusal(self, count: int) -> str:
        if not count:
            return ""
        if self.stops:
            return "parent CANCELLED" if self.marked else "parent INTERRUPTED"
        if self.is_late:
            return "parent DEADLINE"
        if self.depth + 1 > MAX_DEPTH:
            return "limit max_depth"
        if self.live_children + count > MAX_LIVE:
            return "limit max_live_children"
        has_room = sum(1 for _ in self.root.subtree()) + count <= MAX_TREE + 1
        return "" if has_room else "limit max_tree_children"

    def _stopped(self, fence: Fence) -> str:
        if fence != self.fence:
            return STALE
        if self.stops:
            return "stopped CANCEL" if self.marked else "stopped INTERRUPT"
        return "stopped DEADLINE" if self.is_late else ""

    def _leave(self, place: Place) -> None:
        self.place, self.fence, self.process = place, None, ""

    def _queue(self) -> None:
        if self.state is SubagentState.STARTING:
            self.state = SubagentState.RUNNING
        self._leave(Place.QUEUED)
        self.waits = set()

    def _answered(self, slot: str, *, at_once: bool = False) -> str:
        if self.place is not Place.WAITING:
            return ""
        self.waits.discard(slot)
        if self.waits and not at_once:
            return ""
        self._queue()
        return f" wakes {self.key.run_id}"

    def _end(self, state: SubagentState) -> str:
        self.steers = ["m" if steer == "q" else steer for steer in self.steers]
        self._leave(Place.ENDED)
        self.state, self.waits, self.journal = state, set(), set()
        self.requests = {slot: letter for slot, letter in self.requests.items() if letter != "o"}
        woken, parent = "", self.parent
        if parent and self.slot and not parent.ended and self.slot.startswith(f"{parent.iteration}:"):
            parent.journal.add(self.slot)
            woken = parent._answered(self.slot)
        return f"ended {state}{woken}"
