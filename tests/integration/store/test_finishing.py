"""Ending a run: its result, its times to live, who hears of it, and that nothing is left behind."""

from __future__ import annotations

import pytest
from tests.integration.store.audit import unowned
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store import keys
from retinue.store.replies import Ended, Overtaken


def test_a_finished_run_is_terminal_and_leaves_every_index(stage: Stage) -> None:
    root = stage.root(timeout_ms=60_000)
    attempt = stage.asking(root)
    stage.run(attempt.model())
    assert stage.run(attempt.finish()) == Ended(SubagentState.SUCCEEDED, None)
    record = stage.record(root)
    assert (record.state, record.phase, record.owner) == (SubagentState.SUCCEEDED, "", None)
    assert record.classification is None
    assert record.finished_ms == record.updated_ms >= record.started_ms >= record.created_ms
    assert stage.queued() == stage.owned() == stage.live(root) == []
    assert stage.due() == {}
    assert stage.story(root)[-1] == ("run.finished", {"state": "SUCCEEDED", "classification": None})


@pytest.mark.parametrize(
    ("state", "classification"),
    [
        (SubagentState.FAILED, ErrorClassification.TOOL_ERROR),
        (SubagentState.INTERRUPTED, ErrorClassification.MAX_ITERATIONS),
        (SubagentState.CANCELLED, None),
    ],
)
def test_a_run_that_does_not_succeed_says_why(
    stage: Stage, state: SubagentState, classification: ErrorClassification | None
) -> None:
    root = stage.root()
    assert stage.end(root, state=state, classification=classification) == Ended(state, None)
    assert stage.record(root).classification is classification
    kind = classification.value if classification else None
    assert stage.story(root)[-1] == ("run.finished", {"state": state.value, "classification": kind})


def test_the_results_of_the_last_calls_go_to_the_thread_that_others_will_read(stage: Stage) -> None:
    root = stage.root(thread_ttl_s=600)
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["search", "submit_result", "search"]))
    stage.run(attempt.tool(0, "found"))
    stage.run(attempt.tool(1, "accepted"))
    before = stage.thread(root)
    answers = [(f"1:{n}", f'{{"tool_call_id":"c{n}","content":') for n in range(3)]
    last = attempt.finish(answers=answers)

    assert stage.run(last) == stage.run(last) == Ended(SubagentState.SUCCEEDED, None)

    assert stage.thread(root) == [
        *before,
        '{"tool_call_id":"c0","content":"found"}',
        '{"tool_call_id":"c1","content":"accepted"}',
    ]


def test_a_finish_that_a_steer_overtakes_leaves_the_thread_as_it_is(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["submit_result"]))
    stage.run(attempt.tool(0, "accepted", tool="submit_result"))
    stage.steer(root, "wait", "s1")
    before = stage.thread(root)

    assert stage.run(attempt.finish(answers=[("1:0", '{"content":')])) == Overtaken()

    assert stage.thread(root) == before
    assert attempt.go(results=[0]).messages == ['{"tool_call_id":"c0","content":"accepted"}']


def test_the_result_is_read_with_request_partial_text_and_steers(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.asking(root)
    stage.run(attempt.model(tools=["search"], partial="so far"))
    stage.steer(root, "late", "s1")
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    result = stage.result(root)
    assert (result.result_json, result.partial, result.request_json) == (
        '{"summary":"done"}',
        "so far",
        '{"goal":"g"}',
    )
    assert [(steer.steer_id, steer.message, steer.disposition) for steer in result.steers] == [
        ("s1", "late", "m")
    ]
    assert result.view.state is SubagentState.FAILED


def test_a_run_without_an_end_has_no_result_yet(stage: Stage) -> None:
    assert stage.result(stage.root()).result_json is None


def test_a_run_is_kept_for_its_result_ttl_and_its_thread_for_its_own(stage: Stage) -> None:
    root = stage.root(result_ttl_s=1800, thread_ttl_s=7000)
    attempt = stage.asking(root)
    stage.run(attempt.model(partial="p"))
    stage.steer(root)
    stage.run(attempt.progress())
    stage.run(attempt.finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR))
    ttl = {
        name: stage.server.ttl(name) for name in stage.dump() if name.startswith(f"retinue:{stage.tenant}:")
    }
    run = {
        name.rpartition(":")[2] if name.count(":") > 4 else "record": ttl[name]
        for name in ttl
        if ":run:" in name
    }
    assert set(run) == {"record", "req", "res", "part", "s", "pg"}
    # The next turn of its conversation is made of its request.
    assert 6900 < run.pop("req") <= 7000
    assert all(1700 < seconds <= 1800 for seconds in run.values())
    assert 6900 < ttl[keys.thread(stage.tenant, root.run_id, root.run_id)] <= 7000
    assert all(1700 < seconds <= 1800 for name, seconds in ttl.items() if ":tree:" in name)


def test_a_tree_is_kept_until_its_last_run_has_ended(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent, abandon=True)
    stage.run(parent.finish())
    assert stage.server.ttl(stage.part(root, "tree:{}:ev")) == -1
    stage.end(child)
    assert 3590 < stage.server.ttl(stage.part(root, "tree:{}:ev")) <= 3600


def test_a_thread_that_is_written_again_does_not_expire_under_its_run(stage: Stage) -> None:
    first = stage.root(thread_id="shared")
    stage.end(first)
    thread = keys.thread(stage.tenant, first.run_id, "shared")
    assert stage.server.ttl(thread) > 0
    second = stage.root(thread_id="shared", first_message='{"role":"user","content":"again"}')
    assert stage.server.ttl(thread) == -1
    assert len(stage.thread(second)) == 2
    stage.end(second)
    assert stage.server.ttl(thread) > 0


def test_waiters_on_the_partition_hear_of_each_end(stage: Stage) -> None:
    root = stage.root()
    with stage.server.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(keys.wake_channel(stage.partition))
        channel.get_message(timeout=30)
        stage.end(root)
        while (message := channel.get_message(timeout=30)) is not None:
            if message["data"] == f"{root.run_id} SUCCEEDED":
                break
        assert message is not None


def test_nothing_without_owner_or_time_to_live_is_left_of_a_whole_tree(stage: Stage) -> None:
    """Every kind of key, and every way to end."""
    root = stage.root(
        timeout_ms=600_000, correlation="c" * 40, grant_json="{}", queue="gpu", thread_id="main"
    )
    _, children = stage.waiting(root, 4, timeout_ms=300_000, queue="fast", grant_json="{}")
    good, bad, late, held = children
    stage.end(good)
    stage.end(bad, state=SubagentState.FAILED, classification=ErrorClassification.MODEL_REJECTED)
    stage.expire_deadline(late)
    stage.run(stage.claim_call(late))
    deep, _ = stage.waiting(held, 2)
    assert deep.run == held
    for run in (root, held):
        stage.steer(run)
    stage.cancel(root)
    stage.sweep(root)
    assert stage.tree(root)["live"] == "0"
    assert unowned(stage.dump()) == []
    assert {name for name in stage.dump() if name.startswith("retinue:{")} <= {
        keys.tenants(stage.partition),
    }


def test_what_a_live_run_needs_has_no_time_to_live(stage: Stage) -> None:
    root = stage.root(correlation="c" * 40)
    stage.waiting(root)
    expiring = {name for name, stored in stage.dump().items() if stored.expires}
    assert expiring == {keys.session(stage.tenant, stage.session)}
