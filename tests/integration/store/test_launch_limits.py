"""What a launch is refused for by the runs above it: their caps on all below them, and their own work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.integration.store.attempt import PIN, Attempt
from tests.integration.store.stage import Stage

from retinue.client.launching.work import work_digest
from retinue.contract import SubagentLaunchRequest
from retinue.store.operations.launching import IdConflict, Launched, LimitReached, NewRun, Rounds, SameWork
from retinue.store.replies import HandedOff


def cap(most: int, live: int) -> LimitReached:
    return LimitReached("max_tree_children", most, live)


def by_code(stage: Stage, parent: Attempt, *runs: NewRun, **how: Any) -> Any:
    """Children that no call waits for."""
    return stage.launch(*runs, parent=parent.as_parent(None), **how)


def test_a_cap_on_a_subtree_counts_all_that_is_ever_launched_below_its_run(stage: Stage) -> None:
    root = stage.calling(stage.root(), "run_agent", "run_agent")
    capped = stage.calling(stage.child(root, max_tree=3), "run_agent")
    below = stage.calling(stage.child(capped), "tool")
    stage.end(stage.child(below, slot=None))
    assert by_code(stage, below, stage.new_run(), stage.new_run()) == cap(3, 2), "all or none"
    last = stage.new_run()
    assert isinstance(by_code(stage, below, last), Launched)
    assert isinstance(by_code(stage, below, last), Launched), "a repeat counts nothing"
    for parent in (below, capped):
        assert by_code(stage, parent, stage.new_run()) == cap(3, 3)
    assert isinstance(by_code(stage, root, stage.new_run()), Launched), "its brothers do not count"


def test_the_nearest_cap_that_is_reached_is_told_and_none_lifts_another(stage: Stage) -> None:
    root = stage.calling(stage.root(max_tree=2), "run_agent")
    child = stage.calling(stage.child(root, max_tree=500), "run_agent")
    assert stage.record(child.run).max_tree_children == 2
    grandchild = stage.calling(stage.child(child, max_tree=1), "tool")
    assert stage.record(grandchild.run).max_tree_children == 1
    assert by_code(stage, grandchild, stage.new_run()) == cap(2, 2)


def test_the_root_has_the_lower_of_its_own_cap_and_the_settings(stage: Stage) -> None:
    for asked, most in ((None, 9), (500, 9), (4, 4), (0, 0)):
        root = stage.root(max_tree=asked, max_tree_children=9)
        assert stage.record(root).max_tree_children == most
        assert stage.tree(root)["mx"] == str(most + 1)
    assert by_code(stage, stage.calling(root, "tool"), stage.new_run()) == cap(0, 0)


def test_caps_hold_when_the_runs_between_have_ended_and_expired(stage: Stage) -> None:
    root = stage.calling(stage.root(), "run_agent")
    capped = stage.calling(stage.child(root, max_tree=2), "tool")
    middle_run = stage.child(capped, slot=None)
    middle = stage.calling(middle_run, "tool", process="p2")
    left_behind = stage.child(middle, slot=None, abandon=True)
    stage.run(middle.finish())
    stage.forget(middle_run)
    below = stage.calling(left_behind, "tool", process="p3")
    assert by_code(stage, below, stage.new_run()) == cap(2, 2)


def test_the_limit_of_tool_calls_is_the_launchs_and_then_the_effective_one(stage: Stage) -> None:
    root = stage.root(max_tool_calls=7)
    assert stage.record(root).max_tool_calls == 7
    attempt = stage.claim(root)
    attempt.go(pin=replace(PIN, max_tool_calls=0))
    assert stage.record(root).max_tool_calls == 0
    stage.run(attempt.model(tools=["handoff_conversation"]))
    assert isinstance(stage.run(attempt.hand_off()), HandedOff)
    assert stage.record(root).max_tool_calls == 0, "until the recipient's is known"
    stage.claim(root).go(results=[0])
    assert stage.record(root).max_tool_calls is None


def test_no_limit_of_tool_calls_is_no_limit_of_zero(stage: Stage) -> None:
    assert stage.record(stage.root()).max_tool_calls is None
    assert stage.record(stage.root(max_tool_calls=0)).max_tool_calls == 0


def work(agent: str, goal: str, **given: Any) -> dict[str, Any]:
    request = SubagentLaunchRequest.parse(goal=goal, **given)
    return {"agent": agent, "work": work_digest(agent, request)}


def deep(stage: Stage) -> Attempt:
    """The support asks the researcher, who asks the support something else."""
    root = stage.calling(stage.root(**work("support", "Answer the ticket")), "run_agent")
    child = stage.calling(stage.child(root, **work("researcher", "Find the rule")), "run_agent")
    return stage.calling(stage.child(child, **work("support", "Ask the customer")), "run_agent")


@pytest.mark.parametrize(
    ("agent", "goal", "given"),
    [
        ("support", "Answer the ticket", {}),
        ("researcher", "  FIND\n the  rule ", {}),
        ("support", "Ask the customer", {}),
    ],
)
def test_what_a_run_above_was_asked_to_do_is_not_launched_again_below_it(
    stage: Stage, agent: str, goal: str, given: dict[str, Any]
) -> None:
    parent = deep(stage)
    before = stage.dump()
    answer = by_code(stage, parent, stage.new_run(), stage.new_run(**work(agent, goal, **given)))
    assert isinstance(answer, SameWork), "all or none"
    assert answer.run_id in stage.live(stage.key(stage.record(parent.run).root_id))
    assert stage.dump() == before


@pytest.mark.parametrize(
    ("agent", "goal", "given"),
    [
        ("researcher", "Answer the ticket", {}),
        ("support", "Find the rule", {}),
        ("support", "Answer the ticket", {"context": "the second half"}),
        ("support", "Answer the ticket", {"inputs": {"half": 2}}),
    ],
)
def test_another_agent_goal_or_matter_is_other_work(
    stage: Stage, agent: str, goal: str, given: dict[str, Any]
) -> None:
    assert isinstance(by_code(stage, deep(stage), stage.new_run(**work(agent, goal, **given))), Launched)


def test_a_matter_that_the_run_above_was_given_as_well_is_no_other_work(stage: Stage) -> None:
    given = {"context": "the text", "inputs": {"half": 1}}
    root = stage.calling(stage.root(**work("support", "Sum it up", **given)), "tool")
    for same in (given, {}):
        answer = by_code(stage, root, stage.new_run(**work("support", "Sum it up", **same)))
        assert answer == SameWork(root.run.run_id)
    halved = given | {"inputs": {"half": 2}}
    assert isinstance(by_code(stage, root, stage.new_run(**work("support", "Sum it up", **halved))), Launched)


def test_a_run_that_was_handed_off_is_at_its_goal_as_both_agents(stage: Stage) -> None:
    root = stage.root(**work("support", "Answer the ticket"))
    attempt = stage.calling(root, "handoff_conversation")
    stage.run(attempt.hand_off())
    parent = stage.calling(root, "tool")
    for agent in ("support", "researcher"):
        answer = by_code(stage, parent, stage.new_run(**work(agent, "Answer the ticket")))
        assert answer == SameWork(root.run_id)


def test_brothers_may_have_the_same_work_and_a_repeat_finds_its_child(stage: Stage) -> None:
    parent = stage.calling(stage.root(**work("support", "Split")), "run_agent", "run_agent")
    same = work("researcher", "Half")
    twice = [stage.new_child(parent, index, **same) for index in range(2)]
    assert isinstance(stage.launch(*twice, parent=parent.as_parent(1)), Launched)
    again = stage.launch(*twice, parent=parent.as_parent(1))
    assert [run.repeated for run in again.runs] == [True, True]
    changed = replace(twice[0], digest="e" * 64, **work("support", "Split"))
    assert isinstance(stage.launch(changed, parent=parent.as_parent(1)), IdConflict)


def test_messages_of_a_group_have_a_rule_of_their_own(stage: Stage) -> None:
    root = stage.calling(stage.root(**work("support", "Hello")), "send_message")
    rounds = Rounds(root.run.run_id, 9)
    message = stage.new_child(root, **work("support", "Hello"))
    assert isinstance(stage.launch(message, parent=root.as_parent(1), rounds=rounds), Launched)
    below = stage.calling(stage.key(message.run_id), "tool")
    passed_on = stage.new_run(**work("support", "Hello"))
    assert isinstance(by_code(stage, below, passed_on), SameWork), "which is not for what they pass down"


def test_what_is_asked_of_nobody_in_particular_is_no_work_of_anybody(stage: Stage) -> None:
    parent = stage.calling(stage.root(), "tool")
    assert isinstance(by_code(stage, parent, stage.new_run()), Launched)
