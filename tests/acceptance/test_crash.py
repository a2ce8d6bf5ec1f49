"""Workers that are killed: their runs go on elsewhere, and nothing that was recorded is done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, count_states, of_kind, run_rig
from tests.acceptance.tree_script import MODEL_CALLS, RUNS, answer, check_nothing_ran_twice, script_tree

from retinue.broker.routes import queue_keys
from retinue.contract import ErrorClassification, EventType, Phase, SteerState, SubagentState
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Call, Turn

UNKNOWN = "[OUTCOME UNKNOWN]"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A model that takes its time, so that calls are in flight when a worker is killed."""
    directory: Path = tmp_path_factory.mktemp("crash")
    with run_rig(directory, agents="tree_agents", latency_s=0.03) as rig:
        script_tree(rig.model)
        yield rig


@pytest.mark.parametrize(("moment", "requests"), [("early", 4), ("middle", 110)])
def test_a_worker_killed_in_the_middle_of_a_tree_costs_at_most_what_was_in_flight(
    rig: RunRig, moment: str, requests: int
) -> None:
    slots = 4
    victim, _ = rig.keep_workers(2, concurrency=slots)
    lifecycle, before = rig.lifecycle(moment), rig.model.count()

    handle = lifecycle.launch(agent="level0", goal=moment)
    rig.model.wait_for(lambda model: model.count() - before >= requests, timeout_s=30)
    victim.kill()
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert count_states(lifecycle.tree(handle)) == {"SUCCEEDED": RUNS}
    check_nothing_ran_twice(rig, lifecycle, handle)
    assert MODEL_CALLS <= rig.model.count() - before <= MODEL_CALLS + slots
    # A tool in flight at the kill may or may not have written; its run was told so, and went on.
    lost = str(result.summary).count(UNKNOWN)
    assert lost <= slots
    if not lost:
        assert result.summary == answer(moment)


def test_the_last_worker_is_killed_and_a_new_one_finishes_the_tree(rig: RunRig) -> None:
    lifecycle, before = rig.lifecycle("last"), rig.model.count()
    [worker] = rig.keep_workers(1, concurrency=4)

    handle = lifecycle.launch(agent="level0", goal="last")
    rig.model.wait_for(lambda model: model.count() - before >= 200, timeout_s=30)
    worker.kill()
    rig.keep_workers(1, concurrency=4)
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert count_states(lifecycle.tree(handle)) == {"SUCCEEDED": RUNS}
    check_nothing_ran_twice(rig, lifecycle, handle)


def test_a_parent_that_is_suspended_when_its_worker_dies_is_resumed_by_its_childs_end(rig: RunRig) -> None:
    script_pair(rig.model, "level3", "suspended")
    [first] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("suspended")

    handle = lifecycle.launch(agent="level3", goal="suspended")
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)
    rig.wait_for_event(lifecycle, handle, EventType.RUN_SUSPENDED)
    rig.worker(concurrency=4)
    first.kill()
    rig.model.release("suspended")
    result = rig.result(lifecycle, handle)

    assert result.summary == "boss heard child done"
    assert [r.turn for r in rig.model.requests("level3") if asked(r, "suspended")] == [0, 1]
    lost = of_kind(list(lifecycle.events(handle)), EventType.ATTEMPT_LOST)
    assert [event.data["counted"] for event in lost] == [False]


def test_the_child_that_ended_while_its_parent_was_down_is_not_run_again(rig: RunRig) -> None:
    """The parent has a tool in flight beside its child, so it is not suspended when its worker dies."""
    rig.model.script("boss", when=lambda request: "both" in str(request.body)).call(
        "run_agent", {"name": "level4", "task": "both: quick"}
    ).call("stall", {}).then("heard ${results}")
    rig.model.script("level4", when=lambda request: "both" in request.last_user).say("quick done")
    [first] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("both")

    handle = lifecycle.launch(agent="boss", goal="both")
    rig.wait_for_event(lifecycle, handle, EventType.RUN_FINISHED)
    assert lifecycle.status(handle).phase is Phase.TOOL_CALL
    rig.worker(concurrency=4)
    first.kill()
    result = rig.result(lifecycle, handle)

    assert str(result.summary).startswith(f"heard quick done; {UNKNOWN}")
    assert len(lifecycle.tree(handle)) == 2
    assert len([r for r in rig.model.requests("level4") if asked(r, "both")]) == 1


def test_an_idempotent_tool_that_is_run_again_finds_the_child_that_it_launched(rig: RunRig) -> None:
    call = rig.model.script("link1", when=lambda request: "again" in request.messages[0].text)
    call.call("hand_on_again", {"agent": "level4", "task": "found again"}).then("${results}")
    rig.model.script("level4", when=lambda request: "found" in request.last_user).hold("again").say(
        "still me"
    )
    [first] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("again")

    handle = lifecycle.launch(agent="link1", goal="again")
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)
    rig.worker(concurrency=4)
    first.kill()
    rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST, count=2)
    rig.model.release("again")
    result = rig.result(lifecycle, handle)

    assert result.summary == "SUCCEEDED: still me"
    assert len(of_kind(list(lifecycle.events(handle)), EventType.RUN_CREATED)) == 2
    assert len({line for line in rig.ledger() if line.endswith("hand_on_again")}) == 1


def test_a_steer_that_a_dying_worker_had_handed_out_is_delivered_once(rig: RunRig) -> None:
    rig.model.script("level4", when=lambda request: "handed" in request.messages[0].text).call(
        "append", {"line": "handed"}
    ).hold("before the steer").then().hold("with the steer").call("append", {"line": "on"}).then("done")
    [first] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("steer")

    handle = lifecycle.launch(agent="level4", goal="handed")
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)
    assert lifecycle.steer(handle, "Be quick.")
    rig.model.release("before the steer")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_STARTED, count=2)
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)
    rig.worker(concurrency=4)
    first.kill()
    rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST)
    rig.model.release("with the steer")
    result = rig.result(lifecycle, handle)

    assert [(steer.state, steer.iteration) for steer in result.steers] == [(SteerState.DELIVERED, 2)]
    last = rig.model.requests("level4")[-1].request
    assert last is not None
    assert [message.text for message in last.messages if message.role == "user"] == ["handed", "Be quick."]


def test_a_cancel_reaches_a_run_whose_worker_is_dead(rig: RunRig) -> None:
    rig.model.script("level4", when=lambda request: "orphan" in request.last_user).hold("orphan").say("never")
    [worker] = rig.keep_workers(1, concurrency=4)
    lifecycle = rig.lifecycle("orphan")
    handle = lifecycle.launch(agent="level4", goal="orphan")
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)

    worker.kill()
    assert lifecycle.cancel(handle).accepted
    assert lifecycle.status(handle).state is SubagentState.CANCEL_REQUESTED
    rig.keep_workers(1, concurrency=4)

    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    assert len([r for r in rig.model.requests("level4") if asked(r, "orphan")]) == 1


def test_a_worker_that_was_frozen_and_wakes_up_changes_nothing(rig: RunRig) -> None:
    rig.model.script("level4", when=lambda request: "frozen" in request.messages[0].text).call(
        "append", {"line": "frozen"}
    ).hold("frozen").then("thawed")
    rig.keep_workers(0, concurrency=4)
    frozen = rig.worker(concurrency=4, settings={"hang_seconds": 3.0})
    lifecycle = rig.lifecycle("frozen")
    handle = lifecycle.launch(agent="level4", goal="frozen")
    rig.model.wait_for(lambda model: model.in_flight("level4") == 1, timeout_s=30)

    frozen.pause()
    rig.worker(concurrency=4)
    rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST)
    rig.model.release("frozen")
    result = rig.result(lifecycle, handle)
    before = list(lifecycle.events(handle))
    frozen.resume()
    frozen.wait_for_log(r"lease\.lost", timeout_s=20)
    rig.wait_until(lambda: rig.active(frozen) == [], "the old attempt has stopped")

    assert result.summary == "thawed"
    assert list(lifecycle.events(handle)) == before
    assert [line.split()[1] for line in rig.ledger()].count("frozen") == 1


def test_a_tool_in_flight_at_the_kill_is_reported_to_the_model_and_not_run_again(rig: RunRig) -> None:
    rig.model.script("unlucky").call("die_once", {}).then("The tool said: ${results}")
    rig.keep_workers(2, concurrency=4)
    lifecycle = rig.lifecycle("unlucky")

    handle = lifecycle.launch(agent="unlucky", goal="try")
    result = rig.result(lifecycle, handle)

    assert str(result.summary).startswith(f"The tool said: {UNKNOWN}")
    assert [line.split()[1] for line in rig.ledger()].count("die_once") == 1
    assert rig.model.count("unlucky") == 2


def test_a_run_that_kills_three_workers_fails_and_its_parent_is_told(rig: RunRig) -> None:
    rig.model.script("boss", when=lambda request: "doom" in str(request.body)).call(
        "run_agent", {"name": "doomed", "task": "doom"}
    ).then("It said: ${results}")
    rig.model.script("doomed", when=lambda request: "doom" in request.last_user).call("die", {})
    lifecycle = rig.lifecycle("doomed")
    rig.keep_workers(4, concurrency=4)

    handle = lifecycle.launch(agent="boss", goal="doom")
    result = rig.result(lifecycle, handle)

    assert str(result.summary).startswith("It said: [WORKER_LOST]")
    root, child = lifecycle.tree(handle)
    assert (root.state, child.state) == (SubagentState.SUCCEEDED, SubagentState.FAILED)
    ended = of_kind(list(lifecycle.events(handle)), EventType.RUN_FINISHED)
    assert ended[0].data["classification"] == ErrorClassification.WORKER_LOST
    assert [line.split()[1] for line in rig.ledger()].count("die") == 3
    # After the first loss it ran alone: the others were processes of its own.
    assert len([worker for worker in rig.workers if worker.running]) == 3
    assert [r.turn for r in rig.model.requests("doomed") if asked(r, "doom")] == [0]


def test_wake_ups_that_vanish_are_sent_again(rig: RunRig) -> None:
    slots = 4
    rig.keep_workers(1, concurrency=slots)
    rig.model.script("level4", when=lambda request: "block" in request.last_user).hold("block").say("done")
    rig.model.script("level4", when=lambda request: "queued" in request.last_user).say("done")
    lifecycle = rig.lifecycle("vanish")
    blocking = lifecycle.launch_many([{"agent": "level4", "goal": "block"}] * slots)
    rig.model.wait_for(lambda model: model.in_flight("level4") == slots, timeout_s=30)

    handles = lifecycle.launch_many([{"agent": "level4", "goal": f"queued {n}"} for n in range(5)])
    assert rig.store.delete(*queue_keys("retinue")) == 1
    rig.model.release("block")

    for handle in (*blocking, *handles):
        assert rig.result(lifecycle, handle).summary == "done"


def test_twenty_wake_ups_of_a_run_to_two_workers_make_one_attempt(rig: RunRig) -> None:
    rig.model.script("level4", when=lambda request: "twenty" in request.last_user).hold("twenty").say("done")
    rig.model.script("level4", when=lambda request: "shut" in request.last_user).hold("shut").say("done")
    slots = 8
    rig.keep_workers(2, concurrency=4)
    lifecycle = rig.lifecycle("twenty")
    shut = lifecycle.launch_many([{"agent": "level4", "goal": "shut"}] * slots)
    rig.model.wait_for(lambda model: model.in_flight("level4") == slots, timeout_s=30)

    handle = lifecycle.launch(agent="level4", goal="twenty")
    [message] = [each for key in queue_keys("retinue") for each in rig.store.lrange(key, 0, -1)]
    [key] = [key for key in queue_keys("retinue") if rig.store.llen(key)]
    rig.store.lpush(key, *([message] * 19))
    rig.model.release("shut")
    rig.wait_until(lambda: rig.store.llen(key) == 0, "all wake-ups are taken")
    rig.model.release("twenty")
    result = rig.result(lifecycle, handle)

    assert result.summary == "done"
    events = list(lifecycle.events(handle))
    assert len(of_kind(events, EventType.RUN_STARTED)) == 1
    assert len(of_kind(events, EventType.MODEL_STARTED)) == 1
    assert len([r for r in rig.model.requests("level4") if asked(r, "twenty")]) == 1
    for each in shut:
        assert rig.result(lifecycle, each).summary == "done"


def script_pair(model: ScriptedServer, parent: str, word: str) -> None:
    """A parent that delegates once, to a child whose model is held back."""
    call = Turn(calls=(Call("run_agent", {"name": "level4", "task": word}),))
    model.script(parent, when=lambda request: word in request.last_user).then(call).then(
        "boss heard ${results}"
    )
    model.script("level4", when=lambda request: word in request.last_user).hold(word).say("child done")


def asked(recorded: object, word: str) -> bool:
    """Whether a recorded request belongs to a run with this word in its goal."""
    request = getattr(recorded, "request", None)
    return request is not None and word in request.messages[0].text
