"""Waiting for children without a worker: suspend, the wake-up by the last child, answers in order."""

from __future__ import annotations

from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import launching
from retinue.store.record import WakeUp
from retinue.store.replies import Ended, Ready, Stopped, Suspended


def _wake(stage: Stage, root_id: str, number: int) -> WakeUp:
    return WakeUp(stage.tenant, root_id, number, "resume", "support", "retinue", 0, root_id, None)


def test_a_suspended_run_holds_no_worker_and_says_what_it_waits_for(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    children = [stage.child(parent, index) for index in (0, 1)]
    seen = len(stage.events(root))
    assert stage.run(parent.suspend(children)) == Suspended(2)
    record = stage.record(root)
    assert (record.state, record.phase, record.owner) == (SubagentState.RUNNING, "waiting_children", None)
    assert stage.owned() == []
    assert stage.story(root, seen) == [("run.suspended", {"phase": "waiting_children", "open": 2})]
    entries = stage.server.hgetall(stage.part(root, "run:{}:e"))
    assert entries == {f"1:{n}": f"child:{child.run_id}" for n, child in enumerate(children)}


def test_the_last_child_wakes_its_parent_exactly_once(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 3)
    wakeups = [stage.end(child).wakeup for child in (children[2], children[0], children[1])]
    assert wakeups == [None, None, _wake(stage, root.run_id, 2)]
    assert stage.queued() == [root.run_id]
    record = stage.record(root)
    assert (record.state, record.phase, record.wakeup) == (SubagentState.RUNNING, "queued", 2)
    assert [kind for kind, _ in stage.story(root)].count("run.resumed") == 1


def test_childrens_answers_join_the_thread_in_request_order(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 3)
    for index in (1, 2, 0):
        stage.end(children[index], reply=f"answer {index}")
    parent = stage.claim(root, process="p3")
    passed = parent.go(results=[0, 1, 2], pin=None)
    assert passed.messages == [f'{{"tool_call_id":"c{n}","content":"answer {n}"}}' for n in range(3)]
    assert stage.record(root).usage.tools == {"run_agent": 3}


def test_a_childs_end_is_its_call_finished_in_the_parents_story(stage: Stage) -> None:
    root = stage.root()
    _, (good, bad) = stage.waiting(root, 2)
    seen = len(stage.events(root))
    stage.end(good)
    stage.end(bad, state=SubagentState.FAILED, classification=ErrorClassification.MODEL_REJECTED)
    calls = [(kind, data) for kind, data in stage.story(root, seen) if kind == "tool.finished"]
    assert calls == [
        ("tool.finished", {"iteration": 1, "index": 0, "tool": "run_agent", "ok": True}),
        ("tool.finished", {"iteration": 1, "index": 1, "tool": "run_agent", "ok": False}),
    ]
    finished = [event for event in stage.events(root) if event.type == "tool.finished"]
    assert {event.run_id for event in finished} == {root.run_id}
    assert all(event.data["duration_ms"] >= 0 for event in finished)


def test_a_suspend_after_the_last_child_ended_is_told_to_go_on(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    children = [stage.child(parent, index) for index in (0, 1)]
    for child in children:
        assert stage.end(child) == Ended(SubagentState.SUCCEEDED, None), "its parent is not waiting"
    before = stage.dump()
    assert stage.run(parent.suspend(children)) == Ready()
    assert stage.dump() == before
    assert parent.go(results=[0, 1], pin=None).iteration == 2


def test_a_suspend_waits_only_for_what_is_still_open(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "run_agent")
    children = [stage.child(parent, index) for index in (0, 1)]
    stage.end(children[0])
    assert stage.run(parent.suspend(children)) == Suspended(1)
    assert stage.end(children[1]).wakeup == _wake(stage, root.run_id, 2)


def test_a_suspend_under_a_cancel_or_past_the_deadline_is_stopped(stage: Stage) -> None:
    for spoil, reason in ((stage.cancel, "CANCEL"), (stage.expire_deadline, "DEADLINE")):
        root = stage.root(timeout_ms=60_000)
        parent = stage.calling(root)
        child = stage.child(parent)
        spoil(root)
        before = stage.dump()
        assert stage.run(parent.suspend([child])) == Stopped(reason)
        assert stage.dump() == before


def test_a_child_launched_by_a_tool_does_not_wake_a_parent_that_waits_for_others(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root, "run_agent", "search")
    own = stage.child(parent, 1, slot=None, slot_tool="")
    asked = stage.child(parent, 0)
    stage.run(parent.suspend([asked]))
    assert stage.end(own).wakeup is None
    assert stage.record(root).phase == "waiting_children"
    assert stage.end(asked).wakeup == _wake(stage, root.run_id, 2)


def test_a_child_that_ends_after_its_parent_writes_nothing_for_it(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent, abandon=True)
    stage.run(parent.finish())
    assert stage.end(child) == Ended(SubagentState.SUCCEEDED, None)
    assert not stage.server.exists(stage.part(root, "run:{}:j"))
    assert [kind for kind, _ in stage.story(root)][-1] == "run.finished"


def test_a_child_that_ends_after_its_parent_is_gone_writes_nothing_for_it(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent, abandon=True)
    stage.run(parent.finish())
    stage.forget(root)
    assert stage.end(child) == Ended(SubagentState.SUCCEEDED, None)
    assert [name for name in stage.dump() if f":run:{root.run_id}" in name] == []


def test_a_child_that_ends_after_its_call_was_answered_otherwise_leaves_no_orphan(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent)
    stage.run(parent.tool(0, "[REFUSED] no reply in time", tool="run_agent"))
    parent.go(results=[0], pin=None)
    stage.run(parent.model(tools=["search"]))
    seen = len(stage.events(root))
    assert stage.end(child) == Ended(SubagentState.SUCCEEDED, None)
    assert not stage.server.exists(stage.part(root, "run:{}:j"))
    assert "tool.finished" not in [kind for kind, _ in stage.story(root, seen)]
    assert stage.record(root).fields["lc"] == "0"


def test_a_tree_of_three_levels_wakes_upwards_one_by_one(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root)
    _, (grandchild,) = stage.waiting(child)
    assert stage.queued() == [grandchild.run_id]
    up = stage.end(grandchild).wakeup
    assert (up.run_id, up.parent_id, up.root_id, up.agent) == (
        child.run_id, root.run_id, root.run_id, "researcher",
    )  # fmt: skip
    middle = stage.claim(child)
    middle.go(results=[0], pin=None)
    assert stage.run(middle.finish()).wakeup == _wake(stage, root.run_id, 2)
    top = stage.claim(root)
    top.go(results=[0], pin=None)
    stage.run(top.model())
    stage.run(top.finish())
    assert stage.tree(root)["live"] == "0"
    assert stage.live(root) == []


def test_a_run_waits_again_in_a_later_iteration(stage: Stage) -> None:
    root = stage.root()
    _, (first,) = stage.waiting(root)
    stage.end(first)
    parent = stage.claim(root)
    parent.go(results=[0], pin=None)
    stage.run(parent.model(tools=["run_agent"]))
    second = stage.child(parent)
    assert second != first
    assert stage.run(parent.suspend([second])) == Suspended(1)
    assert stage.end(second).wakeup == _wake(stage, root.run_id, 3)


def test_a_parent_lost_before_it_suspends_finds_its_children_again(stage: Stage) -> None:
    root = stage.root()
    parent = stage.calling(root)
    child = stage.child(parent)
    stage.run(parent.hand_back())
    stage.end(child, reply="kept")
    again = stage.claim(root, process="p2")
    assert again.claimed.journal == {"1:0": '"kept"'}
    relaunch = stage.launch(stage.new_child(again), parent=again.as_parent(1))
    assert isinstance(relaunch, launching.Launched)
    assert relaunch.runs[0].repeated
    assert stage.run(again.suspend([child])) == Ready()
