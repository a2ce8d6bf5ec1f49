"""What goes on now, as the store tells it: trees with live runs, and their runs with those above them."""

from __future__ import annotations

from tests.integration.store.stage import Stage

from retinue.contract import SubagentState
from retinue.store.operations.living import LivePage, count_live_trees, read_live_runs, read_live_trees


def page(stage: Stage, root_id: str, *, place: int = 0, most: int = 100) -> LivePage:
    return stage.run(read_live_runs(stage.tenant, root_id, place=place, most=most))


def trees(stage: Stage) -> list[str]:
    found = stage.run(read_live_trees(stage.tenant, stage.partition, most=10))
    assert stage.run(count_live_trees(stage.tenant, stage.partition)) == len(found)
    return [tree.root_id for tree in found]


def test_a_tree_is_told_until_its_last_run_has_ended(stage: Stage) -> None:
    first, second = stage.root(), stage.root()
    assert set(trees(stage)) == {first.run_id, second.run_id}
    _, (child,) = stage.waiting(second, 1)
    stage.end(first)
    assert trees(stage) == [second.run_id]
    shown = page(stage, second.run_id)
    assert [entry.run_id for entry in shown.entries] == [second.run_id, child.run_id]
    assert (shown.total, shown.entries[1].record.parent_id) == (2, second.run_id)


def test_an_ended_run_above_a_live_one_is_told_as_well(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "search")
    child = stage.child(attempt, slot=None, slot_tool="", abandon=True)
    stage.run(attempt.finish(SubagentState.SUCCEEDED))

    shown = page(stage, root.run_id)

    assert shown.total == 1
    assert {entry.run_id: entry.state for entry in shown.entries} == {
        child.run_id: SubagentState.PENDING,
        root.run_id: SubagentState.SUCCEEDED,
    }
    assert trees(stage) == [root.run_id]
    stage.end(child)
    assert trees(stage) == []


def test_a_crowd_is_read_in_parts_and_each_part_hangs_together(stage: Stage) -> None:
    root = stage.root()
    _, children = stage.waiting(root, 5)
    seen: set[str] = set()
    for place in range(0, 6, 2):
        part = page(stage, root.run_id, place=place, most=2)
        assert part.total == 6
        assert root.run_id in {entry.run_id for entry in part.entries}
        seen |= {entry.run_id for entry in part.entries}
    assert seen == {root.run_id, *(child.run_id for child in children)}


def test_a_cancel_is_told_of_all_below_it(stage: Stage) -> None:
    root = stage.root()
    _, (child,) = stage.waiting(root, 1)
    stage.cancel(root)
    assert {entry.run_id for entry in page(stage, root.run_id).entries if entry.under_cancel} == {
        root.run_id,
        child.run_id,
    }


def test_a_run_that_is_not_there_has_no_tree(stage: Stage) -> None:
    run = stage.root()
    stage.end(run)
    assert page(stage, run.run_id) == LivePage(0, ())
