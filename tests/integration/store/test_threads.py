"""One writer a thread: a run has a shared thread to itself while it lives, and its end lets it go."""

from __future__ import annotations

from typing import Any

from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import SubagentState
from retinue.store.call import RunKey
from retinue.store.operations.launching import Launched, Rounds, ThreadBusy

PAIR = "t" + "0" * 31


def _parent(stage: Stage) -> Attempt:
    return stage.calling(stage.root(), "send_message", "send_message")


def _send(stage: Stage, parent: Attempt, index: int = 0, **changes: Any) -> Any:
    new = stage.new_child(parent, index, thread_id=PAIR, **changes)
    return stage.launch(new, parent=parent.as_parent(1))


def test_a_thread_that_a_live_run_writes_to_is_busy_and_a_repeat_is_none(stage: Stage) -> None:
    parent = _parent(stage)
    first = _send(stage, parent)
    holder = first.runs[0].run_id
    before = stage.dump()

    assert _send(stage, parent, 1) == ThreadBusy(holder)
    assert stage.dump() == before, "nothing was written"
    assert _send(stage, parent).runs[0].repeated


def test_two_runs_of_one_launch_cannot_share_a_thread(stage: Stage) -> None:
    one, other = stage.new_run(thread_id=PAIR), stage.new_run(thread_id=PAIR)
    assert stage.launch(one, other) == ThreadBusy(one.run_id)
    owner = stage.new_run()
    assert stage.launch(owner, stage.new_run(thread_id=owner.run_id)) == ThreadBusy(owner.run_id)


def test_another_tree_finds_the_thread_busy_too(stage: Stage) -> None:
    holder = _send(stage, _parent(stage)).runs[0].run_id
    assert _send(stage, _parent(stage)) == ThreadBusy(holder)


def test_a_thread_that_a_live_run_began_is_its_own(stage: Stage) -> None:
    root = stage.root()
    assert stage.launch(stage.new_run(thread_id=root.run_id)) == ThreadBusy(root.run_id)
    stage.end(root)
    again = stage.launch(stage.new_run(thread_id=root.run_id))
    assert isinstance(again, Launched)


def test_every_end_frees_the_thread_for_the_next_run(stage: Stage) -> None:
    parent = _parent(stage)

    def ends(run: RunKey) -> None:
        stage.end(run)

    def cancelled(run: RunKey) -> None:
        stage.cancel(run)
        stage.sweep(run)

    for how in (ends, cancelled):
        child = stage.key(_send(stage, parent).runs[0].run_id)
        how(child)
        assert stage.state(child) in (SubagentState.SUCCEEDED, SubagentState.CANCELLED)
        following = _send(stage, parent, 1)
        assert isinstance(following, Launched)
        key = stage.part(child, "th:" + PAIR)
        assert stage.server.ttl(key) == -1, "it does not expire under the run that writes to it now"
        assert stage.server.get(key + ":by") == following.runs[0].run_id
        stage.end(stage.key(following.runs[0].run_id))
        assert stage.server.ttl(key) > 0
        assert not stage.server.exists(key + ":by")
        parent = _parent(stage)


def test_a_pair_is_kept_for_as_long_as_the_conversation_goes_on(stage: Stage) -> None:
    parent = _parent(stage)
    pair = stage.part(parent.run, "th:" + PAIR)

    def send(sender: Attempt, index: int) -> None:
        new = stage.new_child(sender, index, thread_id=PAIR, thread_ttl_s=50)
        launched = stage.launch(new, parent=sender.as_parent(1), rounds=Rounds(parent.run.run_id, 9))
        assert isinstance(launched, Launched)
        stage.end(stage.key(new.run_id))

    send(parent, 0)
    assert stage.server.ttl(pair) == -1, "the conversation is still live"

    stage.run(parent.finish())
    assert stage.server.ttl(pair) > 50, "as long as the conversation, not as its own run said"

    following = stage.new_run(thread_id=parent.run.run_id, continues=parent.run.run_id)
    assert isinstance(stage.launch(following), Launched)
    assert stage.server.ttl(pair) == -1, "and it is live again"
    stage.end(stage.key(following.run_id))
    assert stage.server.ttl(pair) > 0, "though nobody wrote to the pair in this turn"


def test_a_pair_that_outlives_its_conversation_expires_with_its_own_writer(stage: Stage) -> None:
    parent = _parent(stage)
    new = stage.new_child(parent, thread_id=PAIR)
    stage.launch(new, parent=parent.as_parent(1), rounds=Rounds(parent.run.run_id, 9))
    pair = stage.part(parent.run, "th:" + PAIR)

    stage.run(parent.finish())
    assert stage.server.ttl(pair) == -1
    child = stage.key(new.run_id)
    stage.sweep(parent.run)

    assert stage.state(child) is SubagentState.CANCELLED
    assert stage.server.ttl(pair) > 0


def test_the_turns_of_a_conversation_are_known_for_as_long_as_anything_is_kept_of_them(stage: Stage) -> None:
    root = stage.root(thread_ttl_s=50)
    stage.end(root)
    turns = stage.part(root, "th:{}:tn")
    assert not stage.server.exists(turns), "most conversations have one"
    ids = set()
    for ttl_s in (3600, 40):
        following = stage.new_run(
            thread_id=root.run_id, continues=root.run_id, thread_ttl_s=50, result_ttl_s=ttl_s
        )
        stage.launch(following)
        ids.add(following.run_id)
        assert stage.server.ttl(turns) == -1
        stage.end(stage.key(following.run_id))
        assert 3500 < stage.server.ttl(turns) <= 3600, "no turn's record is kept for longer"
    assert set(stage.server.zrange(turns, 0, -1)) == ids

    for run_id in ids:
        stage.server.zadd(turns, {run_id: 1})
    gone = stage.key(min(ids))
    stage.forget(gone)
    stage.server.delete(*(stage.part(gone, "tree:{}" + part) for part in ("", ":ev")))
    stage.launch(last := stage.new_run(thread_id=root.run_id, continues=root.run_id))
    stage.end(stage.key(last.run_id))
    assert set(stage.server.zrange(turns, 0, -1)) == {max(ids), last.run_id}, "one of which nothing is kept"
