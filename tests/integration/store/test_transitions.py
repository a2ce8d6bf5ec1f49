"""The scripts against the contract's table: what each operation makes of a run in each state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.integration.store.attempt import REFUND, WHERE, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import (
    PHASES_OF,
    TERMINAL_STATES,
    TRANSITIONS,
    ErrorClassification,
    Phase,
    StoreReplyError,
    SubagentState,
)
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, running
from retinue.store.replies import Fence

# The table allows it for a run that is refused before any claim; no operation does that yet.
NOT_DONE_YET = {SubagentState.PENDING: {SubagentState.FAILED}}


def _ended(state: SubagentState) -> Callable[[Stage], RunKey]:
    def start(stage: Stage) -> RunKey:
        root = stage.root(timeout_ms=60_000)
        stage.end(root, state=state, classification=None)
        return root

    return start


def _no_worker(stage: Stage) -> RunKey:
    root = stage.root(timeout_ms=60_000)
    stage.run(control.no_worker(root))
    return root


def _handed_back(stage: Stage) -> RunKey:
    attempt = stage.claim(stage.root(timeout_ms=60_000))
    stage.run(attempt.hand_back())
    return attempt.run


def _asking_a_human(stage: Stage) -> RunKey:
    attempt = stage.calling(stage.root(timeout_ms=60_000), "refund", "where")
    stage.run(attempt.ask(REFUND, WHERE))
    return attempt.run


def _approved(stage: Stage) -> RunKey:
    run = _asking_a_human(stage)
    _approve(stage, run)
    return stage.claim(run).run


def _approve(stage: Stage, run: RunKey) -> None:
    stage.run(asking.approve(run, above=run.run_id, slot="1:0", decision_id="d1"))


def _deny(stage: Stage, run: RunKey) -> None:
    stage.run(asking.deny(run, above=run.run_id, slot="1:0", decision_id="d2", reason="no"))


def _answer(stage: Stage, run: RunKey) -> None:
    stage.run(asking.answer(run, above=run.run_id, slot="1:1", decision_id="d3", value="here"))


STARTS: dict[str, Callable[[Stage], RunKey]] = {
    "queued": lambda stage: stage.root(timeout_ms=60_000),
    "no worker": _no_worker,
    "claimed": lambda stage: stage.claim(stage.root(timeout_ms=60_000)).run,
    "asking": lambda stage: stage.asking(stage.root(timeout_ms=60_000)).run,
    "calling": lambda stage: stage.calling(stage.root(timeout_ms=60_000), "search").run,
    "waiting": lambda stage: stage.waiting(stage.root(timeout_ms=60_000))[0].run,
    "queued again": _handed_back,
    "asking a human": _asking_a_human,
    "approved": _approved,
    **{state.value: _ended(state) for state in sorted(TERMINAL_STATES)},
}


def _holder(stage: Stage, run: RunKey) -> Attempt:
    """Whoever holds the run, or an attempt that is not entitled."""
    epoch, token = stage.server.hmget(run.record, "ep", "tok")
    return Attempt(stage, run, None, Fence(int(epoch), token or "nobody"))  # pyright: ignore[reportArgumentType]


def _under_cancel(then: Callable[[Stage, RunKey], Any]) -> Callable[[Stage, RunKey], Any]:
    def operation(stage: Stage, run: RunKey) -> None:
        stage.cancel(run)
        then(stage, run)

    return operation


def _out_of_time(then: Callable[[Stage, RunKey], Any]) -> Callable[[Stage, RunKey], Any]:
    def operation(stage: Stage, run: RunKey) -> None:
        stage.expire_deadline(run)
        then(stage, run)

    return operation


def _claim(stage: Stage, run: RunKey) -> None:
    stage.run(stage.claim_call(run))


def _timer(stage: Stage, run: RunKey) -> None:
    stage.run(control.timer(run, again_ms=1000))


def _take_over(losses: int) -> Callable[[Stage, RunKey], Any]:
    def operation(stage: Stage, run: RunKey) -> None:
        call = running.take_over(run, process=stage.process("p1"), dead=True, losses_before_end=losses)
        stage.run(call)

    return operation


def _finish(state: SubagentState) -> Callable[[Stage, RunKey], Any]:
    def operation(stage: Stage, run: RunKey) -> None:
        classification = ErrorClassification.INTERNAL_ERROR if state is SubagentState.FAILED else None
        stage.run(_holder(stage, run).finish(state, classification))

    return operation


OPERATIONS: dict[str, Callable[[Stage, RunKey], Any]] = {
    "claim": _claim,
    "claim under a cancel": _under_cancel(_claim),
    "claim out of time": _out_of_time(_claim),
    "boundary": lambda stage, run: stage.run(_holder(stage, run).boundary()),
    "record_model": lambda stage, run: stage.run(_holder(stage, run).model(tools=["search"])),
    "record_tool_result": lambda stage, run: stage.run(_holder(stage, run).tool(0)),
    "note": lambda stage, run: stage.run(_holder(stage, run).retry()),
    "note_draining": lambda stage, run: stage.run(_holder(stage, run).draining()),
    "suspend": lambda stage, run: stage.run(_holder(stage, run).suspend([run])),
    "hand_back": lambda stage, run: stage.run(_holder(stage, run).hand_back()),
    "handoff": lambda stage, run: stage.run(_holder(stage, run).hand_off()),
    **{f"finish {state}": _finish(state) for state in sorted(TERMINAL_STATES)},
    "take_over": _take_over(3),
    "take_over for the last time": _take_over(1),
    "steer": lambda stage, run: stage.steer(run),
    "cancel": lambda stage, run: stage.cancel(run),
    "interrupt": lambda stage, run: stage.interrupt(run),
    "suspend that asks a human": lambda stage, run: stage.run(_holder(stage, run).ask(REFUND, WHERE)),
    "begin_approved": lambda stage, run: stage.run(_holder(stage, run).begin()),
    "approve": _approve,
    "deny": _deny,
    "answer": _answer,
    "sweep": lambda stage, run: stage.sweep(run),
    "cancel and sweep": _under_cancel(lambda stage, run: stage.sweep(run)),
    "timer": _timer,
    "timer out of time": _out_of_time(_timer),
    "rewake": lambda stage, run: stage.run(control.rewake(run, first_ms=0, longest_ms=0)),
    "no_worker": lambda stage, run: stage.run(control.no_worker(run)),
}


def _apply(stage: Stage, operation: str, run: RunKey) -> None:
    # A response that does not follow a boundary is a fault of the caller's, and refused as such.
    with suppress(StoreReplyError):
        OPERATIONS[operation](stage, run)


def test_every_operation_moves_a_run_as_the_contract_allows_and_all_its_moves_occur(stage: Stage) -> None:
    seen: dict[SubagentState, set[SubagentState]] = defaultdict(set)
    for start, prepare in STARTS.items():
        for operation in OPERATIONS:
            run = prepare(stage)
            before = stage.record(run).state
            _apply(stage, operation, run)
            after = stage.record(run)
            assert after.phase in PHASES_OF[after.state], (start, operation)
            if after.state is not before:
                assert after.state in TRANSITIONS[before], (start, operation)
                seen[before].add(after.state)
    for state, allowed in TRANSITIONS.items():
        assert seen[state] == allowed - NOT_DONE_YET.get(state, set()), state


def test_a_terminal_run_is_the_same_to_the_last_byte_after_any_operation(stage: Stage) -> None:
    for state in sorted(TERMINAL_STATES):
        run = STARTS[state.value](stage)
        before = stage.dump()
        for operation in OPERATIONS:
            if "out of time" in operation:
                continue  # it moves the deadline by force
            _apply(stage, operation, run)
            assert stage.dump() == before, operation


def test_no_phase_of_a_worker_is_left_over_once_nobody_holds_the_run(stage: Stage) -> None:
    held = {Phase.CLAIMED, Phase.MODEL_CALL, Phase.TOOL_CALL}
    for start, prepare in STARTS.items():
        record = stage.record(prepare(stage))
        assert (record.phase in held) == (record.owner is not None), start
