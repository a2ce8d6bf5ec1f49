"""Memory: records stay small, and a full server refuses new work but never the end of old work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.integration.store.attempt import REFUND, WHERE, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, StoreMemoryError, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, reading, running
from retinue.store.replies import Pin

LONGEST = "x" * 64
ODD = "x" + "é" * 200  # a cut after an even number of bytes splits a character


@contextmanager
def _full(stage: Stage) -> Iterator[None]:
    stage.server.config_set("maxmemory", 1)
    try:
        yield
    finally:
        stage.server.config_set("maxmemory", 0)


def test_the_record_of_a_deep_child_with_the_longest_names_is_a_compact_list(stage: Stage) -> None:
    names = {"agent": LONGEST, "queue": LONGEST, "correlation": "c" * 40, "digest": "d" * 64}
    stage.session = "s" * 64
    capable = running.capability([LONGEST], [])

    def hold(run: Any) -> Any:
        call = stage.claim_call(run, token="t" * 32, capable=capable)
        attempt = Attempt(stage, run, stage.run(call))
        attempt.go(pin=Pin("a" * 64, "{}" * 5000, 50, LONGEST, LONGEST))
        stage.run(attempt.model(tools=["run_agent", LONGEST, ODD], partial="p" * 5000))
        stage.run(attempt.tool(1, "v" * 5000, tool=LONGEST))
        stage.run(attempt.tool(2, "v" * 5000, tool=ODD))
        stage.run(attempt.retry())
        return attempt

    run = stage.root(**names | {"request_json": "r" * 5000}, timeout_ms=10**12, max_live_children=100)
    for depth in range(1, 5):
        attempt = hold(run)
        run = stage.child(attempt, 0, **names | {"correlation": f"{depth}" * 40, "grant_json": "g" * 5000})
        stage.steer(run, "m" * 5000)
    attempt = hold(run)
    record = stage.record(run)
    assert (record.depth, record.path) == (4, "0/0/0/0/0/")
    assert set(record.usage.tools) == {"x" * 61, "x" + "é" * 30}
    for _ in range(2):
        fields = stage.server.hgetall(run.record)
        assert {name: value for name, value in fields.items() if len(f"{value}".encode()) > 64} == {}
        assert stage.server.object("encoding", run.record) == "listpack"
        stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.RECONNECT_UNAVAILABLE))


def test_long_values_have_keys_of_their_own(stage: Stage) -> None:
    root = stage.root(request_json='"' + "r" * 5000 + '"')
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["search"], partial="p" * 5000))
    assert stage.server.object("encoding", root.record) == "listpack"
    assert len(stage.result(root).request_json) == 5002
    assert len(stage.result(root).partial or "") == 5000


def _finish(stage: Stage) -> Any:
    _, (child,) = stage.waiting(stage.root())
    return stage.asking(child).finish()


def _suspend(stage: Stage) -> Any:
    parent = stage.calling(stage.root())
    return parent.suspend([stage.child(parent)])


def _sweep(stage: Stage) -> Any:
    run = stage.waiting(stage.root(), 3)[0].run
    stage.cancel(run)
    return control.sweep(run)


def _take_over(stage: Stage) -> Any:
    run = stage.calling(stage.root(), "search").run
    return running.take_over(run, process=stage.process("p1"), dead=True, losses_before_end=3)


def _timer(stage: Stage) -> Any:
    run = stage.root(timeout_ms=60_000)
    stage.expire_deadline(run)
    return control.timer(run, again_ms=1000)


def _asking_a_human(stage: Stage) -> RunKey:
    attempt = stage.calling(stage.root(), "refund", "where")
    stage.run(attempt.ask(REFUND, WHERE))
    return attempt.run


def _approval(run: RunKey) -> Any:
    return asking.approve(run, above=run.run_id, slot="1:0", decision_id="d")


def _approved(stage: Stage) -> Attempt:
    run = _asking_a_human(stage)
    stage.run(_approval(run))
    return stage.claim(run)


GO_ON: dict[str, Callable[[Stage], Any]] = {
    "finish": _finish,
    "record_model": lambda stage: stage.asking(stage.root()).model(tools=["search"], partial="p"),
    "record_tool_result": lambda stage: stage.calling(stage.root(), "search").tool(0),
    "suspend": _suspend,
    "suspend that asks a human": lambda stage: stage.calling(stage.root(), "refund").ask(REFUND),
    "begin_approved": lambda stage: _approved(stage).begin(),
    "hand_back": lambda stage: stage.asking(stage.root()).hand_back(),
    "note_draining": lambda stage: stage.asking(stage.root()).draining(),
    "cancel": lambda stage: control.cancel(stage.root(), reason="enough"),
    "sweep": _sweep,
    "take_over": _take_over,
    "timer": _timer,
    "rewake": lambda stage: control.rewake(stage.root(), first_ms=0, longest_ms=0),
    "no_worker": lambda stage: control.no_worker(stage.root()),
}


@pytest.mark.parametrize("operation", GO_ON)
def test_a_full_server_still_lets_go_of_what_it_holds(stage: Stage, operation: str) -> None:
    call = GO_ON[operation](stage)
    before = stage.dump()
    with _full(stage):
        stage.run(call)
    assert stage.dump() != before


def test_a_full_server_is_still_read(stage: Stage) -> None:
    root = stage.root()
    with _full(stage):
        assert stage.state(root) is SubagentState.PENDING
        assert stage.run(reading.read_result(root)) is not None


REFUSED: dict[str, Callable[[Stage], Any]] = {
    "launch": lambda stage: stage.launch_call(stage.new_run()),
    "claim": lambda stage: stage.claim_call(stage.root()),
    "boundary": lambda stage: stage.claim(stage.root()).boundary(),
    "steer": lambda stage: control.steer(stage.root(), steer_id="s", message="m", max_steers=9),
    "note": lambda stage: stage.asking(stage.root()).retry(),
    "approve": lambda stage: _approval(_asking_a_human(stage)),
    "deny": lambda stage: asking.deny(
        run := _asking_a_human(stage), above=run.run_id, slot="1:0", decision_id="d", reason="no"
    ),
    "answer": lambda stage: asking.answer(
        run := _asking_a_human(stage), above=run.run_id, slot="1:1", decision_id="d", value="here"
    ),
}


@pytest.mark.parametrize("operation", REFUSED)
def test_a_full_server_takes_no_new_work_and_changes_nothing(stage: Stage, operation: str) -> None:
    call = REFUSED[operation](stage)
    before = stage.dump()
    with _full(stage), pytest.raises(StoreMemoryError):
        stage.run(call)
    assert stage.dump() == before
    stage.run(call)
    assert stage.dump() != before, "it goes through once there is room"
