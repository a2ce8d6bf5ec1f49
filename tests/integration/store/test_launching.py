"""Launching roots and children: what it writes, what it repeats, what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import SubagentState, child_run_id, new_run_id
from retinue.store import keys
from retinue.store.operations import reading
from retinue.store.operations.launching import (
    MAX_LAUNCHES,
    IdConflict,
    Launched,
    LimitReached,
    ParentRefused,
    Rounds,
)


def test_a_launched_root_is_pending_queued_and_in_every_index(stage: Stage) -> None:
    new = stage.new_run()
    reply = stage.launch(new)
    root, run = reply.runs[0], stage.key(new.run_id)
    assert (root.run_id, root.repeated, root.already_answered, root.path, root.depth) == (
        new.run_id,
        False,
        False,
        "0/",
        0,
    )
    record = stage.record(run)
    assert (record.state, record.phase, record.epoch, record.owner) == (
        SubagentState.PENDING,
        "queued",
        0,
        None,
    )
    assert (record.root_id, record.parent_id, record.thread_id) == (new.run_id, None, new.run_id)
    assert (record.agent, record.session_id, record.wakeup) == ("support", "customer-42", 1)
    assert record.created_ms == root.created_ms == reply.now_ms
    assert record.deadline_ms is None
    assert stage.story(run) == [("run.created", {"agent": "support", "parent_id": None, "path": "0/"})]
    assert stage.queued() == stage.live(run) == [new.run_id]
    assert stage.due() == {}
    assert stage.tree(run) == {"n": "1", "live": "1", "mx": "1001"}
    assert stage.thread(run) == ['{"role":"user","content":"hi"}']
    assert stage.result(run).request_json == '{"goal":"g"}'
    assert stage.run(reading.list_roots(stage.tenant, stage.session)).run_ids == (new.run_id,)
    assert stage.run(reading.find_tenant(new.run_id)) == stage.tenant


def test_a_run_that_lacks_a_worker_says_so_waits_in_its_queue_and_is_woken(stage: Stage) -> None:
    new = stage.new_run(lacks_worker=True, broker_list="wakeups", envelope=b"ring")
    stage.launch(new)
    run = stage.key(new.run_id)
    assert (stage.state(run), stage.record(run).phase) == (SubagentState.PENDING, "no_worker")
    assert stage.queued() == [new.run_id]
    assert stage.server.lrange("wakeups", 0, -1) == ["ring"]
    stage.server.delete("wakeups")
    stage.claim(run)
    assert stage.record(run).phase != "no_worker"


def test_a_child_stands_below_its_parent_in_the_same_tree(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    before = len(stage.events(root))
    first, second = stage.child(parent, 0), stage.child(parent, 1)
    record = stage.record(second)
    assert (record.root_id, record.parent_id, record.path, record.depth) == (
        root.run_id,
        root.run_id,
        "0/1/",
        1,
    )
    assert stage.live(root) == [root.run_id, first.run_id, second.run_id]
    assert stage.tree(root)["n"] == stage.tree(root)["live"] == "3"
    assert stage.server.hmget(root.record, "lc", "nc") == ["2", "2"]
    assert stage.story(root, before) == [
        ("run.created", {"agent": "researcher", "parent_id": root.run_id, "path": f"0/{n}/"}) for n in (0, 1)
    ]
    assert stage.run(reading.list_roots(stage.tenant, stage.session)).run_ids == (root.run_id,)


def test_the_same_launch_again_is_a_repeat_and_another_under_its_id_a_conflict(stage: Stage) -> None:
    new = stage.new_run()
    first = stage.launch(new).runs[0]
    again = stage.launch(new).runs[0]
    assert again.repeated
    assert (again.path, again.depth, again.created_ms) == (first.path, first.depth, first.created_ms)
    before = stage.dump()
    assert stage.launch(stage.new_run(new.run_id, digest="e" * 64)) == IdConflict(new.run_id)
    assert stage.dump() == before


def test_a_batch_of_100_is_launched_in_its_order(stage: Stage) -> None:
    batch = [stage.new_run() for _ in range(MAX_LAUNCHES)]
    reply = stage.launch(*batch)
    assert [run.run_id for run in reply.runs] == [new.run_id for new in batch]
    assert set(stage.queued()) == {new.run_id for new in batch}
    with pytest.raises(ValueError, match="1 to 100 runs, not 101"):
        stage.launch_call(*batch, stage.new_run())
    with pytest.raises(ValueError, match="1 to 100 runs, not 0"):
        stage.launch_call()


def test_a_batch_that_names_a_run_twice_is_refused(stage: Stage) -> None:
    new = stage.new_run()
    with pytest.raises(ValueError, match="twice"):
        stage.launch_call(new, new)


def test_a_batch_that_stood_in_part_is_completed(stage: Stage) -> None:
    batch = [stage.new_run() for _ in range(3)]
    stage.launch(batch[1])
    reply = stage.launch(*batch)
    assert [run.repeated for run in reply.runs] == [False, True, False]
    assert len(stage.queued()) == 3


def test_the_wake_up_is_pushed_where_the_broker_is_this_server(stage: Stage) -> None:
    broker_list = f"retinue:{stage.tenant}:broker"
    stage.root(broker_list=broker_list, envelope=b'{"body":"1"}')
    assert stage.server.lrange(broker_list, 0, -1) == ['{"body":"1"}']
    stage.server.delete(broker_list)


def test_a_stale_parent_may_not_launch(stage: Stage) -> None:
    parent = stage.calling(stage.root())
    new = stage.new_child(parent)
    stage.run(parent.hand_back())
    before = stage.dump()
    assert stage.launch(new, parent=parent.as_parent(1)) == ParentRefused("STALE")
    assert stage.launch(new, parent=parent.with_fence(9, parent.fence.token).as_parent(1)) == ParentRefused(
        "STALE"
    )
    assert stage.dump() == before


def test_a_parent_that_has_gone_on_may_not_launch_for_an_old_iteration(stage: Stage) -> None:
    parent = stage.calling(stage.root(), "search")
    new = stage.new_child(parent, 1)
    stage.run(parent.tool(0))
    parent.go(results=[0], pin=None)
    for _ in range(2):  # while its model is asked, and once that has answered
        before = stage.dump()
        assert stage.launch(new, parent=parent.as_parent(1)) == ParentRefused("ITERATION")
        assert stage.dump() == before
        if stage.record(parent.run).recorded_iteration == 1:
            stage.run(parent.model(tools=["search"]))


def test_a_tool_launches_without_a_slot_in_any_iteration(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "search")
    child = stage.child(parent, slot=None, slot_tool="")
    stage.end(child)
    assert stage.server.hgetall(stage.part(root, "run:{}:j")) == {}, "it answers no call of the model"
    assert stage.record(root).fields["lc"] == "0"


def test_a_parent_under_a_cancel_or_past_its_deadline_may_not_launch(stage: Stage) -> None:
    for spoil, reason in ((stage.cancel, "CANCELLED"), (stage.expire_deadline, "DEADLINE")):
        root = stage.root(timeout_ms=60_000)
        parent = stage.calling(root)
        new = stage.new_child(parent)
        spoil(root)
        before = stage.dump()
        assert stage.launch(new, parent=parent.as_parent(1)) == ParentRefused(reason)
        assert stage.dump() == before


def test_a_child_that_ended_while_its_parent_was_down_is_not_launched_anew(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    new = stage.new_child(parent)
    stage.launch(new, parent=parent.as_parent(1))
    child = stage.key(new.run_id)
    stage.end(child)
    assert stage.launch(new, parent=parent.as_parent(1)).runs[0].repeated
    stage.forget(child)
    before = stage.dump()
    again = stage.launch(new, parent=parent.as_parent(1)).runs[0]
    assert (again.repeated, again.already_answered) == (False, True)
    assert stage.dump() == before


def test_depth_live_children_and_tree_are_capped_and_name_their_limit(stage: Stage) -> None:
    deep = stage.calling(stage.root(max_depth=0))
    live = stage.calling(stage.root(max_live_children=2), *["run_agent"] * 3)
    tree = stage.calling(stage.root(max_tree_children=2), *["run_agent"] * 3)
    cases = [
        (deep, 1, LimitReached("max_depth", 0, None)),
        (live, 3, LimitReached("max_live_children", 2, 0)),
        (tree, 3, LimitReached("max_tree_children", 2, 0)),
    ]
    for parent, count, refused in cases:
        batch = [stage.new_child(parent, index) for index in range(count)]
        before = stage.dump()
        assert stage.launch(*batch, parent=parent.as_parent(1)) == refused, "all or none"
        assert stage.dump() == before
    for parent in (live, tree):
        batch = [stage.new_child(parent, index) for index in range(2)]
        assert isinstance(stage.launch(*batch, parent=parent.as_parent(1)), Launched)
    refused = stage.launch(stage.new_child(live, 2), parent=live.as_parent(1))
    assert refused == LimitReached("max_live_children", 2, 2)
    refused = stage.launch(stage.new_child(tree, 2), parent=tree.as_parent(1))
    assert refused == LimitReached("max_tree_children", 2, 2)


def test_a_place_among_the_live_children_comes_free_but_one_in_the_tree_does_not(stage: Stage) -> None:
    parent = stage.calling(stage.root(max_live_children=1, max_tree_children=2), *["run_agent"] * 3)
    stage.end(stage.child(parent, 0))
    stage.end(stage.child(parent, 1))
    refused = stage.launch(stage.new_child(parent, 2), parent=parent.as_parent(1))
    assert refused == LimitReached("max_tree_children", 2, 2)


def test_a_child_may_not_go_deeper_than_its_parent(stage: Stage) -> None:
    parent = stage.calling(stage.root(max_depth=2))
    child = stage.child(parent, max_depth=9)
    assert stage.record(child).max_depth == 2
    other = stage.calling(stage.root(max_depth=3))
    assert stage.record(stage.child(other, max_depth=1)).max_depth == 1


def test_a_childs_id_lies_in_its_parents_partition(stage: Stage) -> None:
    root = stage.root()
    child = child_run_id(root.run_id, 1, 0, 0)
    assert keys.prefixes(stage.tenant, child) == keys.prefixes(stage.tenant, root.run_id)


def test_the_session_list_drops_roots_that_are_gone_though_the_oldest_stay(stage: Stage) -> None:
    kept = [stage.root() for _ in range(5)]
    for _ in range(40):
        gone = stage.root()
        stage.end(gone)
        stage.forget(gone)
    entries = stage.server.zrange(keys.session(stage.tenant, stage.session), 0, -1)
    assert len(entries) < 25, "what has expired is a small part"
    assert {run.run_id for run in kept} <= set(entries)
    assert 0 < stage.server.ttl(keys.session(stage.tenant, stage.session)) <= 9000


def test_many_roots_at_once_drop_as_many_that_are_gone(stage: Stage) -> None:
    first = [stage.new_run() for _ in range(20)]
    stage.launch(*first)
    for new in first:
        stage.end(stage.key(new.run_id))
        stage.forget(stage.key(new.run_id))
    fresh = [stage.new_run() for _ in range(20)]
    stage.launch(*fresh)
    entries = stage.server.zrange(keys.session(stage.tenant, stage.session), 0, -1)
    assert set(entries) == {new.run_id for new in fresh}


def test_a_part_of_the_list_leaves_out_what_has_expired_and_says_where_it_goes_on(stage: Stage) -> None:
    runs = [stage.root() for _ in range(4)]
    for moment, run in enumerate(runs):  # several may have come in one millisecond
        stage.server.zadd(keys.session(stage.tenant, stage.session), {run.run_id: moment})
    oldest, gone, third, newest = runs
    stage.end(gone)
    stage.forget(gone)

    def part(place: int, most: int) -> reading.ListedRoots:
        return stage.run(reading.list_roots(stage.tenant, stage.session, place=place, most=most))

    assert part(0, 2) == reading.ListedRoots((newest.run_id, third.run_id), 2)
    assert part(2, 1) == reading.ListedRoots((), 3)
    assert part(3, 2) == reading.ListedRoots((oldest.run_id,), None)


def test_a_tenant_that_has_not_launched_for_long_is_forgotten(stage: Stage) -> None:
    tenants, now_ms = keys.tenants(stage.partition), stage.server.time()[0] * 1000
    day = 24 * 3600 * 1000
    stage.server.zadd(tenants, {"t-old": now_ms - 31 * day, "t-kept": now_ms - 29 * day})

    parent = stage.calling(stage.root())

    assert stage.server.zscore(tenants, "t-old") is None
    assert stage.server.zscore(tenants, "t-kept") is not None
    stage.server.zadd(tenants, {stage.tenant: now_ms - 29 * day})
    stage.child(parent)
    assert stage.server.zscore(tenants, stage.tenant) >= now_ms, "a child keeps it known too"
    stage.server.zrem(tenants, "t-kept")


def test_a_run_is_found_by_its_id_among_tenants_that_do_not_have_it(stage: Stage) -> None:
    run = stage.root()
    others = {f"t-other-{n}": 9e15 for n in range(reading.TENANTS_A_READ)}
    stage.server.zadd(keys.tenants(stage.partition), others)
    try:
        assert stage.run(reading.find_tenant(run.run_id)) == reading.TENANTS_A_READ
        assert stage.run(reading.find_tenant(run.run_id, place=reading.TENANTS_A_READ)) == stage.tenant
    finally:
        stage.server.zrem(keys.tenants(stage.partition), *others)
    assert stage.run(reading.find_tenant(new_run_id(stage.partition))) is None


def test_a_child_that_a_tools_code_launched_does_not_run_anew_though_it_ended_long_ago(stage: Stage) -> None:
    parent = stage.calling(stage.root(), "search")
    new, other = (stage.new_child(parent, n, slot=None, slot_tool="") for n in range(2))
    by_code = parent.as_parent(None)
    stage.launch(new, parent=by_code)
    child = stage.key(new.run_id)
    stage.end(child)
    stage.forget(child)
    before = stage.dump()

    again = stage.launch(new, parent=by_code)

    assert [(run.run_id, run.already_answered) for run in again.runs] == [(new.run_id, True)]
    assert stage.dump() == before
    both = stage.launch(new, other, parent=by_code)
    assert [run.already_answered for run in both.runs] == [True, False]

    ended = stage.part(parent.run, "run:{}:c")
    assert stage.server.smembers(ended) == {new.run_id}
    stage.run(parent.tool(0))
    parent.go(results=[0])
    assert not stage.server.exists(ended), "a later call launches under other ids"
    stage.end(stage.key(other.run_id))
    assert stage.server.smembers(ended) == {other.run_id}
    stage.run(parent.finish())
    assert not stage.server.exists(ended)


def test_messages_of_a_group_are_counted_on_one_record_and_limited(stage: Stage) -> None:
    parent = stage.calling(stage.root(), *["send_message"] * 3)
    rounds = Rounds(parent.run.run_id, 2)

    def send(index: int) -> Any:
        return stage.launch(stage.new_child(parent, index), parent=parent.as_parent(1), rounds=rounds)

    first = send(0)
    assert isinstance(first, Launched)
    # A message of a member below counts on the same record; a repeated one does not count again.
    child = stage.calling(stage.key(first.runs[0].run_id), "send_message", process="p2")
    nested = stage.launch(stage.new_child(child), parent=child.as_parent(1), rounds=rounds)
    assert isinstance(nested, Launched)
    assert send(0).runs[0].repeated
    before = stage.dump()
    assert send(1) == LimitReached("max_rounds", 2, 2)
    assert stage.dump() == before
    assert isinstance(stage.launch(stage.new_child(parent, 1), parent=parent.as_parent(1)), Launched)
