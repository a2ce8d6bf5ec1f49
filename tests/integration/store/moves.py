"""What the model checker can do: each move sends an operation to the store and makes the model do it too."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import redis
from tests.integration.store.attempt import PIN, REFUND, WHERE, Attempt
from tests.integration.store.reference import (
    LOSSES,
    MAX_DEPTH,
    MAX_ITERATIONS,
    MAX_LIVE,
    MAX_TREE,
    Kind,
    Run,
)
from tests.integration.store.stage import CAPABLE, Runner, Stage
from tests.integration.store.told import told

from retinue.contract import ErrorClassification, SubagentState, child_run_id
from retinue.store.operations import asking, control, running
from retinue.store.operations.launching import NewRun
from retinue.store.replies import CallResult, Claimed, Fence

_PIN = replace(PIN, max_iterations=MAX_ITERATIONS)


@dataclass(eq=False)
class Hold:
    """An attempt that may have been lost.

    Args:
        run: Of which run.
        attempt: What it sends.
        passed: The iteration whose boundary it passed.
        begun: Approved calls that it may have the result of.
    """

    run: Run
    attempt: Attempt
    passed: int = 0
    begun: set[str] = field(default_factory=set[str])

    @property
    def fence(self) -> Fence:
        return self.attempt.fence

    @property
    def is_current(self) -> bool:
        return self.fence == self.run.fence

    @property
    def may_record(self) -> bool:
        return self.passed == self.run.iteration > self.run.recorded

    def open_of(self, *kinds: Kind) -> list[str]:
        """The calls of these kinds that have no result yet."""
        run = self.run
        return [] if run.moved else [slot for slot in run.open_calls if run.calls[slot] in kinds]

    @property
    def unlaunched(self) -> list[str]:
        """Calls whose children have never been launched."""
        launched = {child.slot for child in self.run.children}
        return [slot for slot in self.open_of(Kind.CHILD) if slot not in launched]


class Moves:
    """All moves, on a tenant of its own.

    Each takes `lost`: whether the reply was lost, so that the same operation comes again.
    """

    def __init__(self, runner: Runner, server: redis.Redis) -> None:
        super().__init__()
        self.stage = Stage(runner, server)
        self.roots: list[Run] = []
        self.holds: list[Hold] = []
        self.correlations: dict[str, Run] = {}

    @property
    def runs(self) -> list[Run]:
        return [run for root in self.roots for run in root.subtree()]

    def held(self) -> list[Hold]:
        return [hold for hold in self.holds if hold.is_current]

    def hold_of(self, run: Run) -> Hold:
        return next(hold for hold in self.holds if hold.fence == run.fence)

    def send(self, call: Any, expected: str, lost: bool, *, same: bool = True) -> Any:
        """Sends a call; `same`: a repeat gets the first answer, rather than one that says it is a repeat."""
        answer = self.stage.run(call)
        assert told(answer) == expected, f"{told(answer)} and not {expected}"
        if lost:
            after = self.stage.dump()
            again = told(self.stage.run(call))
            assert self.stage.dump() == after, "a repeat changed something"
            assert again == expected or not same
        return answer

    # Clients.

    def launch(self, count: int, lost: bool, *, has_deadline: bool) -> None:
        new = [self._request(timeout_ms=600_000 if has_deadline else 0) for _ in range(count)]
        call = self.stage.launch_call(*new, max_tree_children=MAX_TREE)
        self.send(call, "launched" + " new" * count, lost, same=False)
        self.roots += [self._model(one) for one in new]

    def launch_correlated(self, name: str, lost: bool, *, returns: bool) -> None:
        new = self._request(correlation=name * 40, return_duplicate=returns)
        holder, expected = self.correlations.get(name), "launched new"
        if holder is not None:
            # The request of a run that has expired cannot be compared with any more.
            kind = "duplicate" if not returns else "conflict" if holder.expired else "same"
            expected = f"{kind} {holder.key.run_id}"
        self.send(self.stage.launch_call(new, max_tree_children=MAX_TREE), expected, lost, same=False)
        if holder is None:
            self.correlations[name] = self._model(new)
            self.roots.append(self.correlations[name])

    def go_on_with(self, before: Run, lost: bool) -> None:
        """The next turn of a conversation."""
        new = self._request(thread_id=before.thread, continues=before.key.run_id)
        writers = [root for root in self.roots if root.thread == before.thread and not root.ended]
        expected = f"busy {writers[0].key.run_id}" if writers else "launched new"
        self.send(self.stage.launch_call(new, max_tree_children=MAX_TREE), expected, lost, same=False)
        if not writers:
            self.roots.append(self._model(new))

    def steer(self, run: Run, lost: bool) -> None:
        call = control.steer(run.key, steer_id=secrets.token_hex(8), message="Germany", max_steers=1000)
        self.send(call, run.steer(), lost, same=False)

    def cancel(self, run: Run, lost: bool) -> None:
        self.send(control.cancel(run.key, reason="enough"), run.cancel(), lost)

    def interrupt(self, run: Run, lost: bool) -> None:
        self.send(control.interrupt(run.key, reason="enough"), run.interrupt(), lost)

    def decide(self, run: Run, slot: str, how: str, lost: bool) -> None:
        where = {"above": run.root.key.run_id, "slot": slot, "decision_id": secrets.token_hex(8)}
        calls = {
            "a": lambda: asking.approve(run.key, **where),
            "d": lambda: asking.deny(run.key, reason="no", **where),
            "i": lambda: asking.answer(run.key, value="here", **where),
        }
        self.send(calls[how](), run.decide(slot, how), lost)

    # Workers.

    def claim(self, run: Run, process: str, lost: bool, *, alone: bool = True) -> None:
        token, named = secrets.token_hex(8), self.stage.process(process)
        call = running.claim(run.key, token=token, process=named, capable=CAPABLE, alone=alone)
        answer = self.send(call, run.claim(Fence(run.epoch + 1, token), process, alone=alone), lost)
        if isinstance(answer, Claimed):
            self.holds.append(Hold(run, Attempt(self.stage, run.key, answer)))

    def boundary(self, hold: Hold, lost: bool) -> str:
        results = [] if hold.run.moved else range(len(hold.run.calls))
        call = hold.attempt.boundary(results=results, pin=_PIN)
        answer = self.send(call, hold.run.boundary(hold.fence), lost)
        hold.passed = hold.run.iteration
        return told(answer)

    def record_model(self, hold: Hold, kinds: Sequence[Kind], lost: bool) -> None:
        steers = ["s"] * (hold.run.handed_out - hold.run.seen)
        call = hold.attempt.model(tools=[kind.name.lower() for kind in kinds], steers=steers)
        self.send(call, hold.run.record_model(hold.fence, kinds), lost)

    def record_tool(self, hold: Hold, slot: str, lost: bool) -> None:
        call = hold.attempt.tool(int(slot.split(":")[1]))
        self.send(call, hold.run.record_tool(hold.fence, slot), lost)

    def begin(self, hold: Hold, slot: str, lost: bool) -> str:
        """Uses an approval up; where another attempt has, its result is that its outcome is not known."""
        call = hold.attempt.begin(int(slot.split(":")[1]))
        answer = told(self.send(call, hold.run.begin(hold.fence, slot), lost))
        if answer in ("begun", "used"):
            hold.begun.add(slot)
        return answer

    def launch_called(self, hold: Hold, lost: bool, *, abandon: bool) -> None:
        """The children of the running iteration's calls; those that were launched before are found."""
        run = hold.run
        new = [
            self._request(
                child_run_id(run.key.run_id, run.recorded, int(slot.split(":")[1]), 0),
                slot=slot,
                slot_tool="child",
                agent="researcher",
                abandon=abandon,
            )
            for slot, kind in run.calls.items()
            if kind is Kind.CHILD
        ]
        self._launch_below(hold, new, run.recorded, lost)

    def launch_by_code(self, hold: Hold, lost: bool, *, abandon: bool) -> None:
        """A child that no call waits for."""
        self._launch_below(hold, [self._request(abandon=abandon)], None, lost)

    def suspend(self, hold: Hold, lost: bool) -> str:
        children = {child.slot: child.key for child in hold.run.children}
        entries: list[Any] = []
        for slot, kind in hold.run.calls.items():
            if slot in children:
                entries.append((slot, f"child:{children[slot].run_id}"))
            elif kind in (Kind.APPROVAL, Kind.INPUT):
                entries.append((slot, REFUND if kind is Kind.APPROVAL else WHERE))
        return told(self.send(hold.attempt.suspend_on(entries), hold.run.suspend(hold.fence), lost))

    def finish(self, hold: Hold, state: SubagentState, lost: bool, *, natural: bool = False) -> None:
        failed = state in (SubagentState.FAILED, SubagentState.INTERRUPTED)
        call = hold.attempt.finish(state, ErrorClassification.TOOL_ERROR if failed else None, natural=natural)
        self.send(call, hold.run.finish(hold.fence, state, natural=natural), lost)

    def hand_back(self, hold: Hold, lost: bool) -> None:
        self.send(hold.attempt.hand_back(), hold.run.hand_back(hold.fence), lost)

    def hand_off(self, hold: Hold, lost: bool) -> None:
        results = [CallResult(n, "handed over", "tool", ok=True) for n in range(len(hold.run.calls))]
        self.send(hold.attempt.hand_off(results=results), hold.run.hand_off(hold.fence), lost)

    # Faults, and what mends them.

    def take_over(self, run: Run, how: str, lost: bool) -> None:
        process, is_dead = self.stage.process(run.process), how == "dead"
        call = running.take_over(
            run.key, process=process, dead=is_dead, losses_before_end=LOSSES, counted=how != "stopping"
        )
        self.send(call, run.take_over(run.process, how), lost, same=False)

    def go_on_though_lost(self, hold: Hold, which: int) -> None:
        """An attempt that has lost its run tries to write."""
        attempt = hold.attempt
        calls: list[Callable[[], Any]] = [
            lambda: attempt.boundary(pin=_PIN),
            lambda: attempt.model(tools=["tool"]),
            lambda: attempt.tool(0),
            attempt.finish,
            attempt.hand_back,
            attempt.hand_off,
            attempt.progress,
            attempt.begin,
            lambda: attempt.ask(REFUND),
            lambda: self.stage.launch_call(self._request(), parent=attempt.as_parent(None)),
        ]
        before = self.stage.dump()
        answer = told(self.stage.run(calls[which % len(calls)]()))
        assert answer in ("stale", "parent STALE")
        assert self.stage.dump() == before, "an attempt that has lost its run changed something"

    def run_out_of_time(self, run: Run) -> None:
        self.stage.expire_deadline(run.key)
        run.late = True

    def timer(self, run: Run) -> None:
        self.send(control.timer(run.key, again_ms=60_000, grace_ms=0), run.timer(), lost=False)

    def sweep(self, run: Run) -> None:
        self.stage.sweep(run.key)
        run.sweep()

    def expire(self, run: Run) -> None:
        self.stage.forget(run.key)
        run.expired = True

    def _request(self, run_id: str | None = None, **changes: Any) -> NewRun:
        limits = {"max_live_children": MAX_LIVE, "max_depth": MAX_DEPTH, "max_iterations": MAX_ITERATIONS}
        return self.stage.new_run(run_id, **limits, **changes)

    def _model(self, new: NewRun, parent: Run | None = None) -> Run:
        has_deadline = new.timeout_ms > 0 or (parent is not None and parent.has_deadline)
        key = self.stage.key(new.run_id)
        late = parent is not None and parent.late  # it has no more time than its parent
        return Run(key, parent, new.slot, new.abandon, "0/", new.thread_id, has_deadline, late=late)

    def _launch_below(self, hold: Hold, new: Sequence[NewRun], iteration: int | None, lost: bool) -> None:
        call = self.stage.launch_call(*new, parent=hold.attempt.as_parent(iteration))
        expected = hold.run.launch(hold.fence, [self._model(one, hold.run) for one in new])
        self.send(call, expected, lost, same=False)
