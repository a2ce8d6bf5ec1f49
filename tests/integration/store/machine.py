"""The state machine of the model checker: which moves come in which order is hypothesis' choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.integration.store.audit import unowned
from tests.integration.store.compare import check_store
from tests.integration.store.moves import Hold, Moves
from tests.integration.store.reference import Kind, Place, Run
from tests.integration.store.stage import Runner

from retinue.contract import SubagentState

_PROCESSES = ("p1", "p2", "p3")
_LIVE_ROOTS = 3
_ROUNDS = 100
"""In which whatever was begun comes to its end, each with one step of every run."""
_PICK = st.integers(0, 11)
_LOST = st.sampled_from((False, False, False, True))
_KINDS = st.sampled_from(
    [
        [],
        [Kind.TOOL],
        [Kind.CHILD],
        [Kind.CHILD, Kind.CHILD],
        [Kind.APPROVAL],
        [Kind.APPROVAL, Kind.INPUT],
        [Kind.TOOL, Kind.CHILD, Kind.APPROVAL],
    ]
)
"""What a response calls; one that calls nothing is the natural end of its run."""

_WORK = st.lists(
    st.tuples(_PICK, _KINDS, _LOST, st.sampled_from((False,) * 5 + (True,))), min_size=4, max_size=12
)
"""Steps: of which run, what its model asks for, whether the reply is lost, whether its worker dies then."""

Work = list[tuple[int, list[Kind], bool, bool]]


class StoreMachine(Moves, RuleBasedStateMachine):
    """Most of its steps are workers' that do their part; the others are clients' and faults."""

    def __init__(self, runner: Runner, server: redis.Redis) -> None:
        super().__init__(runner, server)
        self.steps = 0

    # Workers that do their part.

    @precondition(lambda self: self._busy())
    @rule(work=_WORK)
    def some_work(self, work: Work) -> None:
        self._do_some(work)

    @precondition(lambda self: self._busy())
    @rule(work=_WORK)
    def more_work(self, work: Work) -> None:
        self._do_some(work)

    @precondition(lambda self: self._busy())
    @rule(work=_WORK)
    def yet_more_work(self, work: Work) -> None:
        self._do_some(work)

    # Workers that do something out of the usual order.

    @precondition(lambda self: self.roots)
    @rule(pick=_PICK, process=st.sampled_from(_PROCESSES), alone=st.booleans(), lost=_LOST)
    def wake_up_for_any_run(self, pick: int, process: str, alone: bool, lost: bool) -> None:
        self.claim(_chosen(self.runs, pick), process, lost, alone=alone)

    @precondition(lambda self: self.held())
    @rule(pick=_PICK, natural=st.booleans(), lost=_LOST)
    def end_early(self, pick: int, natural: bool, lost: bool) -> None:
        state = SubagentState.SUCCEEDED if natural else SubagentState.FAILED
        self.finish(_chosen(self.held(), pick), state, lost, natural=natural)

    @precondition(lambda self: self.held())
    @rule(pick=_PICK, lost=_LOST)
    def give_back(self, pick: int, lost: bool) -> None:
        self.hand_back(_chosen(self.held(), pick), lost)

    @precondition(lambda self: self._may_hand_off())
    @rule(pick=_PICK, lost=_LOST)
    def give_away(self, pick: int, lost: bool) -> None:
        self.hand_off(_chosen(self._may_hand_off(), pick), lost)

    @precondition(lambda self: self._in_tools())
    @rule(pick=_PICK, abandon=st.booleans(), lost=_LOST)
    def launch_from_a_tool(self, pick: int, abandon: bool, lost: bool) -> None:
        self.launch_by_code(_chosen(self._in_tools(), pick), lost, abandon=abandon)

    @precondition(lambda self: self._launched())
    @rule(pick=_PICK, abandon=st.booleans(), lost=_LOST)
    def launch_called_again(self, pick: int, abandon: bool, lost: bool) -> None:
        self.launch_called(_chosen(self._launched(), pick), lost, abandon=abandon)

    # Clients.

    @precondition(lambda self: self._has_room())
    @rule(count=st.integers(1, 2), deadline=st.booleans(), lost=_LOST)
    def launch_roots(self, count: int, deadline: bool, lost: bool) -> None:
        self.launch(count, lost, has_deadline=deadline)

    @precondition(lambda self: self._has_room())
    @rule(name=st.sampled_from("ab"), returns=st.booleans(), lost=_LOST)
    def launch_with_correlation(self, name: str, returns: bool, lost: bool) -> None:
        self.launch_correlated(name, lost, returns=returns)

    @precondition(lambda self: self._has_room() and any(root.ended for root in self.roots))
    @rule(pick=_PICK, lost=_LOST)
    def go_on_with_a_conversation(self, pick: int, lost: bool) -> None:
        self.go_on_with(_chosen([root for root in self.roots if root.ended], pick), lost)

    @precondition(lambda self: self.roots)
    @rule(pick=_PICK, lost=_LOST)
    def steer_any_run(self, pick: int, lost: bool) -> None:
        self.steer(_chosen(self.runs, pick), lost)

    @precondition(lambda self: self.roots)
    @rule(pick=_PICK, sweeps=st.booleans(), lost=_LOST)
    def cancel_any_run(self, pick: int, sweeps: bool, lost: bool) -> None:
        run = _chosen(self.runs, pick)
        self.cancel(run, lost)
        if sweeps:
            self.sweep(run)

    @precondition(lambda self: self.roots)
    @rule(pick=_PICK, lost=_LOST)
    def interrupt_any_run(self, pick: int, lost: bool) -> None:
        self.interrupt(_chosen(self.runs, pick), lost)

    @precondition(lambda self: self._asking())
    @rule(pick=_PICK, which=_PICK, how=st.sampled_from("aadi"), lost=_LOST)
    def decide_any_request(self, pick: int, which: int, how: str, lost: bool) -> None:
        run = _chosen(self._asking(), pick)
        self.decide(run, _chosen(sorted(run.requests), which), how, lost)

    # Faults, and what mends them.

    @precondition(lambda self: self.held())
    @rule(pick=_PICK, how=st.sampled_from(("dead", "dead", "idle", "stopping")), lost=_LOST)
    def lose_an_attempt(self, pick: int, how: str, lost: bool) -> None:
        """A worker is killed, disowns its run or stops; the attempt is left behind, and may yet go on."""
        self.take_over(_chosen(self.held(), pick).run, how, lost)

    @precondition(lambda self: self._lost_holds())
    @rule(pick=_PICK, which=_PICK)
    def go_on_with_a_lost_attempt(self, pick: int, which: int) -> None:
        self.go_on_though_lost(_chosen(self._lost_holds(), pick), which)

    @precondition(lambda self: self._may_be_late())
    @rule(pick=_PICK)
    def let_time_run_out(self, pick: int) -> None:
        self.run_out_of_time(_chosen(self._may_be_late(), pick))

    @precondition(lambda self: self.roots)
    @rule(pick=_PICK, timer=st.booleans())
    def reap(self, pick: int, timer: bool) -> None:
        run = _chosen(self.runs, pick)
        (self.timer if timer else self.sweep)(run)

    @precondition(lambda self: self._may_expire())
    @rule(pick=_PICK)
    def let_a_run_expire(self, pick: int) -> None:
        self.expire(_chosen(self._may_expire(), pick))

    # What must hold.

    @invariant()
    def store_and_model_agree(self) -> None:
        self.steps += 1
        check_store(self.stage, self.roots)

    def teardown(self) -> None:
        """All comes to an end, by cancels or by workers that do their part; then nothing may be left."""
        if self.steps % 2:
            for root in self.roots:
                self.cancel(root, lost=False)
        for _ in range(_ROUNDS):
            for run in [run for run in self.runs if not run.ended]:
                if run.marked:
                    self.sweep(run)
                self._take_a_step(run, [], lost=False)
        assert all(run.ended for run in self.runs), "a run does not come to its end"
        for run in self.runs:
            self.timer(run)
        found = check_store(self.stage, self.roots)
        assert not unowned(found)
        self.stage.purge(found)

    # What a fair worker, or a human, does next.

    def _do_some(self, work: Work) -> None:
        for pick, kinds, lost, crashes in work:
            if not (busy := self._busy()):
                return
            run = _chosen(busy, pick)
            self._take_a_step(run, kinds, lost)
            if crashes and run.place is Place.HELD:
                self.take_over(run, "dead", lost=False)

    def _take_a_step(self, run: Run, kinds: Sequence[Kind], lost: bool) -> None:
        match run.place:
            case Place.QUEUED:
                self.claim(run, _chosen(_PROCESSES, len(self.holds)), lost)
            case Place.HELD:
                self._work(self.hold_of(run), kinds, lost)
            case Place.WAITING if run.open_requests and not run.marked:
                slot = run.open_requests[0]
                how = "i" if run.calls[slot] is Kind.INPUT else "a" if kinds else "d"
                self.decide(run, slot, how, lost)
            case _:
                pass

    def _work(self, hold: Hold, kinds: Sequence[Kind], lost: bool) -> None:
        run, told = hold.run, ""
        approved = [slot for slot in hold.open_of(Kind.APPROVAL) if run.requests.get(slot) in ("a", "u")]
        # A child that may not be launched is answered with the reason.
        results = [
            *hold.unlaunched,
            *hold.open_of(Kind.TOOL),
            *(slot for slot in approved if slot in hold.begun),
        ]
        if hold.may_record:
            self.record_model(hold, kinds, lost)
        elif hold.unlaunched and not run.refused:
            self.launch_called(hold, lost, abandon=Kind.TOOL in kinds)
        elif results:
            self.record_tool(hold, results[0], lost)
        elif approved:
            told = self.begin(hold, approved[0], lost)
        elif hold.open_of(*Kind):
            told = self.suspend(hold, lost)
        elif run.recorded and not run.calls:
            self.finish(hold, SubagentState.SUCCEEDED, lost, natural=True)
            told = self.boundary(hold, lost) if hold.is_current else ""
        else:
            told = self.boundary(hold, lost)
        if told.startswith("stopped") or (run.refused and (run.stops or run.is_late)):
            state = SubagentState.CANCELLED if run.marked else SubagentState.INTERRUPTED
            self.finish(hold, state, lost)

    # What the rules choose from.

    def _busy(self) -> list[Run]:
        return [
            run
            for run in self.runs
            if not run.ended and (run.place is not Place.WAITING or run.open_requests)
        ]

    def _has_room(self) -> bool:
        return sum(not root.ended for root in self.roots) < _LIVE_ROOTS

    def _may_hand_off(self) -> list[Hold]:
        return [
            hold
            for hold in self.held()
            if hold.open_of(Kind.TOOL) and set(hold.run.calls.values()) == {Kind.TOOL}
        ]

    def _in_tools(self) -> list[Hold]:
        return [hold for hold in self.held() if hold.open_of(Kind.TOOL)]

    def _launched(self) -> list[Hold]:
        return [hold for hold in self.held() if not hold.run.moved and Kind.CHILD in hold.run.calls.values()]

    def _asking(self) -> list[Run]:
        return [run for run in self.runs if run.requests and not run.root.expired]

    def _lost_holds(self) -> list[Hold]:
        return [hold for hold in self.holds if not hold.is_current and not hold.run.expired]

    def _may_be_late(self) -> list[Run]:
        return [run for run in self.runs if run.has_deadline and not run.late and not run.ended]

    def _may_expire(self) -> list[Run]:
        """Those whose time to live may be over: long after their end, so nothing below them is live."""
        return [run for run in self.runs if not run.expired and all(below.ended for below in run.subtree())]


def _chosen(candidates: Sequence[Any], pick: int) -> Any:
    return candidates[pick % len(candidates)]
