"""Children in the background: launched once, waited for by name, and kept for their parent."""

from __future__ import annotations

import pytest
from tests.integration.store.attempt import Attempt
from tests.integration.store.stage import Stage

from retinue.contract import ErrorClassification, Phase, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import reading, running
from retinue.store.operations.launching import Launched
from retinue.store.replies import Ready, Suspended


def apart(stage: Stage, parent: Attempt, index: int) -> RunKey:
    """A child in the background for the parent's call `index`."""
    return stage.child(parent, index, slot=None, background=True)


def suspend(
    stage: Stage, attempt: Attempt, detail: str, *children: RunKey, slot: str = "1:9"
) -> Suspended | Ready:
    entries = [(f"{slot}@{child.run_id}", f"{detail}:{child.run_id}") for child in children]
    return stage.run(
        running.suspend(
            attempt.run, attempt.fence, attempt.operation(), phase=Phase.WAITING_CHILDREN, entries=entries
        )
    )


def kept(stage: Stage, parent: RunKey) -> dict[str, str | None]:
    return {child: one.reply for child, one in stage.run(reading.read_background(parent)).items()}


def test_a_childs_reply_is_kept_beside_its_parent_until_that_ends(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent")
    first, second = apart(stage, attempt, 0), apart(stage, attempt, 1)
    assert kept(stage, root) == {first.run_id: None, second.run_id: None}

    assert stage.end(first, reply="Done.").wakeup is None
    stage.forget(first)

    assert kept(stage, root) == {first.run_id: "Done.", second.run_id: None}
    assert stage.server.hgetall(stage.part(root, "run:{}:j")) == {}
    stage.run(attempt.finish())
    assert kept(stage, root) == {}
    stage.audit()


def test_the_end_of_all_wakes_a_parent_that_waits_for_all(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent")
    first, second = apart(stage, attempt, 0), apart(stage, attempt, 1)

    assert suspend(stage, attempt, "child", first, second) == Suspended(2)
    assert stage.end(first).wakeup is None
    wakeup = stage.end(
        second, state=SubagentState.FAILED, classification=ErrorClassification.TOOL_ERROR
    ).wakeup

    assert wakeup is not None
    assert wakeup.run_id == root.run_id
    assert stage.claim(root).claimed.journal == {}
    stage.audit()


def test_the_first_end_wakes_a_parent_that_waits_for_any(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent", "run_agent")
    first, second, third = (apart(stage, attempt, index) for index in range(3))

    assert suspend(stage, attempt, "any", first, second, third) == Suspended(3)
    assert stage.end(second).wakeup is not None

    # The others are still live, and end without waking anybody.
    assert stage.end(first).wakeup is None
    assert kept(stage, root)[third.run_id] is None


def test_any_of_one_call_leaves_the_waits_of_another_open(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent")
    first, second = apart(stage, attempt, 0), apart(stage, attempt, 1)
    entries = [
        *((f"1:5@{child.run_id}", f"any:{child.run_id}") for child in (first, second)),
        (f"1:6@{second.run_id}", f"child:{second.run_id}"),
    ]
    call = running.suspend(
        root, attempt.fence, attempt.operation(), phase=Phase.WAITING_CHILDREN, entries=entries
    )

    assert stage.run(call) == Suspended(3)
    assert stage.end(first).wakeup is None
    assert stage.end(second).wakeup is not None


@pytest.mark.parametrize("detail", ["child", "any"])
def test_what_has_ended_before_is_not_waited_for(stage: Stage, detail: str) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent", "run_agent")
    first, second = apart(stage, attempt, 0), apart(stage, attempt, 1)
    stage.end(first)

    assert suspend(stage, attempt, detail, first) == Ready()
    both = suspend(stage, attempt, detail, first, second)

    assert both == (Ready() if detail == "any" else Suspended(1))


def test_a_repeated_launch_finds_its_child_even_where_that_has_expired(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent")
    child = apart(stage, attempt, 0)
    new = stage.new_child(attempt, 0, slot=None, background=True)

    again = stage.launch(new, parent=attempt.as_parent(1))
    assert isinstance(again, Launched)
    assert (again.runs[0].repeated, again.runs[0].already_answered) == (True, False)

    stage.end(child)
    stage.forget(child)
    expired = stage.launch(new, parent=attempt.as_parent(1))
    assert isinstance(expired, Launched)
    assert expired.runs[0].already_answered
    assert stage.record(root).fields["nc"] == "1"


def test_a_child_that_a_cancel_sweeps_away_wakes_its_parent(stage: Stage) -> None:
    root = stage.root()
    attempt = stage.calling(root, "run_agent")
    child = apart(stage, attempt, 0)
    assert suspend(stage, attempt, "child", child) == Suspended(1)

    stage.cancel(child)
    (swept,) = stage.sweep(child)

    assert [wakeup.run_id for wakeup in swept.wakeups] == [root.run_id]
    assert str(kept(stage, root)[child.run_id]).startswith("[CANCELLED]")
