"""What a child in the background asks the model above it: told to it, answered by it, no human involved."""

from __future__ import annotations

import re

import pytest
from tests.integration.store.attempt import REFUND, WHERE, Attempt
from tests.integration.store.stage import Stage

from retinue.contract import Audience, DecisionRefusal, Phase, RequestKind
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import asking, control, reading, running
from retinue.store.operations.asking import Asked
from retinue.store.operations.reading import BackgroundChild
from retinue.store.record import WakeUp
from retinue.store.replies import Ready, Suspended

QUESTION = Asked(RequestKind.INPUT, "ask_parent", "call_3", {"question": "?"}, "c" * 64, to_parent=True)
HOUR_MS = 3_600_000


def family(stage: Stage, children: int = 1, *, calls: int = 1) -> tuple[Attempt, list[Attempt]]:
    """A parent at work, and its children in the background, each of which has called so many tools."""
    parent = stage.calling(stage.root(timeout_ms=HOUR_MS), *["run_agent"] * children)
    runs = [stage.child(parent, index, slot=None, background=True) for index in range(children)]
    return parent, [stage.calling(run, *["ask_parent"] * calls, process="p2") for run in runs]


def wait(
    stage: Stage, parent: Attempt, detail: str, *children: RunKey, slot: str = "1:9"
) -> Suspended | Ready:
    entries = [(f"{slot}@{child.run_id}", f"{detail}:{child.run_id}") for child in children]
    call = running.suspend(
        parent.run, parent.fence, parent.operation(), phase=Phase.WAITING_CHILDREN, entries=entries
    )
    return stage.run(call)


def ask(stage: Stage, child: Attempt, *asked: Asked) -> WakeUp | None:
    """Lets a child ask, and gives its parent's wake-up."""
    suspended = stage.run(child.ask(*(asked or (QUESTION,)), phase=Phase.WAITING_INPUT))
    assert isinstance(suspended, Suspended)
    return suspended.wakeup


def answer(
    stage: Stage, child: RunKey, above: RunKey, slot: str = "1:0", *, by: str = "d1"
) -> asking.DecisionReply:
    return stage.run(
        asking.answer(child, above=above.run_id, slot=slot, decision_id=by, value="Yes.", by_model=True)
    )


def stands(stage: Stage, parent: RunKey, child: RunKey) -> BackgroundChild:
    return stage.run(reading.read_background(parent))[child.run_id]


def audiences(stage: Stage, run: RunKey) -> list[Audience]:
    return [request.audience for request in stage.run(asking.read_requests(run)).requests]


@pytest.mark.parametrize("detail", ["child", "any"])
def test_a_question_wakes_a_parent_that_waits_for_its_child_and_the_answer_wakes_the_child(
    stage: Stage, detail: str
) -> None:
    parent, (child, other) = family(stage, 2)
    assert wait(stage, parent, detail, child.run, other.run) == Suspended(2)

    wakeup = ask(stage, child)
    assert wakeup is not None
    assert wakeup.run_id == parent.run.run_id
    assert stage.record(parent.run).phase is Phase.QUEUED
    assert stands(stage, parent.run, child.run) == BackgroundChild(asks=True)
    assert stands(stage, parent.run, other.run) == BackgroundChild()

    reply = answer(stage, child.run, parent.run)
    assert reply.wakeup is not None
    assert reply.wakeup.run_id == child.run.run_id
    assert answer(stage, child.run, parent.run) == reply, "a repeat gets the same"
    assert answer(stage, child.run, parent.run, by="d2").refused is DecisionRefusal.DECIDED
    assert stands(stage, parent.run, child.run) == BackgroundChild()
    assert stage.claim(child.run).claimed.journal == {"1:0": '"Yes."'}
    stage.audit()


def test_a_parent_that_waits_for_others_is_not_woken_by_a_question(stage: Stage) -> None:
    parent, (child, other) = family(stage, 2)
    assert wait(stage, parent, "child", other.run) == Suspended(1)
    assert ask(stage, child) is None
    assert stands(stage, parent.run, child.run).asks
    assert stage.record(parent.run).phase is Phase.WAITING_CHILDREN


def test_what_is_asked_before_the_wait_is_not_waited_for(stage: Stage) -> None:
    parent, (child, other) = family(stage, 2)
    assert ask(stage, child) is None
    assert wait(stage, parent, "child", child.run, other.run) == Ready()
    assert wait(stage, parent, "child", other.run) == Suspended(1)


def test_a_suspension_whose_reply_was_lost_owes_the_same_wake_up(stage: Stage) -> None:
    parent, (child,) = family(stage)
    wait(stage, parent, "child", child.run)
    call = child.ask(QUESTION, phase=Phase.WAITING_INPUT)
    first = stage.run(call)
    assert isinstance(first, Suspended)
    assert first.wakeup is not None
    assert stage.run(call) == first


def test_no_human_is_awaited_for_a_question_to_the_model_above(stage: Stage) -> None:
    parent, (child,) = family(stage, calls=2)
    ask(stage, child, QUESTION, WHERE)
    runs = (parent.run, child.run)
    assert audiences(stage, parent.run) == [Audience.PARENT, Audience.USER]
    assert [stage.record(run).awaits_human for run in runs] == [True, True]

    stage.run(asking.answer(child.run, above=child.run.run_id, slot="1:1", decision_id="d", value="Ulm"))
    assert [stage.record(run).awaits_human for run in runs] == [False, False]
    assert not stage.run(reading.read_asked(parent.run)).is_asking
    assert audiences(stage, parent.run) == [Audience.PARENT]
    assert stage.record(child.run).pending == 1

    answer(stage, child.run, parent.run)
    assert not stands(stage, parent.run, child.run).asks
    stage.audit()


def test_a_model_answers_only_what_it_is_asked_itself(stage: Stage) -> None:
    parent, (child,) = family(stage, calls=3)
    ask(stage, child, QUESTION, WHERE, REFUND)
    before = stage.dump()
    for slot in ("1:1", "1:2"):
        assert answer(stage, child.run, parent.run, slot).refused is DecisionRefusal.WRONG_KIND
    assert stage.dump() == before


def test_without_a_model_above_a_human_is_asked(stage: Stage) -> None:
    root = stage.root()
    ask(stage, stage.calling(root, "ask_parent"))
    assert audiences(stage, root) == [Audience.USER]
    assert stage.record(root).awaits_human

    waiting = stage.root()
    _, (child,) = stage.waiting(waiting)
    ask(stage, stage.calling(child, "ask_parent", process="p2"))
    assert audiences(stage, child) == [Audience.USER]
    assert stage.record(waiting).awaits_human
    stage.audit()


def test_an_interrupted_run_leaves_its_questions_to_a_human(stage: Stage) -> None:
    parent, (child, other) = family(stage, 2)
    ask(stage, child)
    seen = len(stage.events(parent.run))
    stage.interrupt(parent.run)
    stage.run(parent.finish())

    assert audiences(stage, child.run) == [Audience.USER]
    assert stage.record(child.run).awaits_human
    assert not stage.record(other.run).awaits_human
    assert stage.run(reading.read_asked(child.run)).is_asking
    story = [data for kind, data in stage.story(parent.run, seen) if kind == "input.requested"]
    assert [(data["audience"], data["arguments"]) for data in story] == [("user", {"question": "?"})]
    reply = stage.run(
        asking.answer(child.run, above=child.run.run_id, slot="1:0", decision_id="d", value="Yes.")
    )
    assert reply.wakeup is not None
    assert not stage.record(child.run).awaits_human
    stage.audit()


def test_a_run_that_takes_its_children_along_asks_no_human(stage: Stage) -> None:
    parent, (child,) = family(stage)
    ask(stage, child)
    seen = len(stage.events(parent.run))
    stage.run(parent.finish())
    assert "input.requested" not in [kind for kind, _ in stage.story(parent.run, seen)]
    stage.sweep(parent.run)
    stage.audit()


def test_a_question_that_nobody_answers_expires(stage: Stage) -> None:
    parent, (child,) = family(stage)
    ask(stage, child)
    name = stage.part(child.run, "run:{}:a")
    raw = stage.server.hget(name, "1:0")
    stage.server.hset(name, "1:0", re.sub(r'"expires_ms":\d+', '"expires_ms":1', raw, count=1))
    stage.server.zadd(keys.due(stage.partition), {child.run.member: 1})

    stage.run(control.timer(child.run, again_ms=1000))
    assert not stands(stage, parent.run, child.run).asks
    assert "expired" in stage.claim(child.run).claimed.journal["1:0"]
    assert answer(stage, child.run, parent.run).refused is DecisionRefusal.EXPIRED
    stage.audit()
