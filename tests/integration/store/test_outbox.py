"""Letters of ended runs: who gets them, for how long, and that none is lost or left over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.store.stage import CAPABLE, Stage

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import control, outbox, purging, running
from retinue.store.operations.outbox import Letter, NotTaken, Told

HELD = NotTaken("HELD")
FOR_A_MINUTE = 60_000


def take(stage: Stage, run: RunKey, *, token: str = "t1", whom: Told = Told.TASK, **how: Any) -> Any:
    """What a process gets that wants to tell of a run's end."""
    return stage.run(outbox.take(run, whom, token=token, held_ms=how.pop("held_ms", FOR_A_MINUTE), **how))


def waiting(stage: Stage, whom: Told = Told.TASK) -> list[str]:
    """The tenant's runs that somebody may take now."""
    seconds, _ = stage.server.time()
    call = outbox.read_outbox(stage.partition, whom, now_ms=seconds * 1000 + 1000, skip=0, most=1000)
    split = [keys.split_member(member) for member in stage.run(call)]
    return [run_id for tenant, run_id in split if tenant == stage.tenant]


def letters(stage: Stage) -> list[str]:
    """All keys of letters, and the runs that still stand in the outbox."""
    found = [name for name in stage.dump() if ":out:" in name]
    return found


def ended(stage: Stage, tells: str = "d", **changes: Any) -> RunKey:
    """A run that has ended by itself, and of whose end someone is to be told."""
    run = stage.root(tells=tells, **changes)
    stage.end(run)
    return run


def test_of_a_run_that_nobody_waits_for_nothing_is_kept(stage: Stage) -> None:
    stage.end(stage.root())
    assert letters(stage) == []


def test_the_letter_tells_how_the_run_ended_and_what_was_asked_for(stage: Stage) -> None:
    run = ended(stage, request_json='{"request":{"goal":"g"}}')
    letter = take(stage, run)
    assert isinstance(letter, Letter)
    assert letter.record.state is SubagentState.SUCCEEDED
    assert letter.record.finished_ms == stage.record(run).finished_ms
    assert letter.request_json == '{"request":{"goal":"g"}}'


def test_it_outlives_the_run(stage: Stage) -> None:
    run = ended(stage)
    stage.forget(run)
    assert isinstance(take(stage, run), Letter)


def test_while_it_is_held_nobody_else_gets_it_but_a_repeat_does(stage: Stage) -> None:
    run = ended(stage)
    assert waiting(stage) == [run.run_id]
    first = take(stage, run)
    assert waiting(stage) == []
    assert take(stage, run, token="t2") == HELD
    assert isinstance(take(stage, run), Letter), "the reply to the first was lost"
    assert isinstance(first, Letter)


def test_one_that_was_not_told_in_time_is_told_by_another(stage: Stage) -> None:
    run = ended(stage)
    take(stage, run, held_ms=0)
    assert waiting(stage) == [run.run_id]
    assert isinstance(take(stage, run, token="t2"), Letter)


def test_once_it_is_told_nothing_is_left_and_nobody_gets_it_again(stage: Stage) -> None:
    run = ended(stage)
    take(stage, run)
    for _ in range(2):  # the reply to the first was lost
        stage.run(outbox.told(run, Told.TASK))
    assert letters(stage) == []
    assert take(stage, run) == HELD


@pytest.mark.parametrize("first", list(Told))
def test_all_who_are_to_be_told_are_told_independently(stage: Stage, first: Told) -> None:
    run = ended(stage, tells="dsw")
    take(stage, run, whom=first)
    stage.run(outbox.told(run, first))
    assert take(stage, run, whom=first) == HELD
    for then in (whom for whom in Told if whom is not first):
        assert isinstance(take(stage, run, whom=then), Letter)
        stage.run(outbox.told(run, then))
    assert letters(stage) == []


def test_hooks_are_told_of_runs_whose_agent_the_process_has(stage: Stage) -> None:
    run = ended(stage, tells="s")
    others = running.capability(["researcher"], [])
    assert take(stage, run, whom=Told.HOOKS, capable=others) == NotTaken("NOT_CAPABLE")
    assert waiting(stage, Told.HOOKS) == [run.run_id]
    assert isinstance(take(stage, run, whom=Told.HOOKS, capable=CAPABLE), Letter)


@pytest.mark.parametrize("agent", ["", "of a document"])
def test_hooks_are_told_of_runs_that_any_worker_can_run(stage: Stage, agent: str) -> None:
    run = stage.root(tells="s", agent=agent, document="d" * 64)
    stage.cancel(run)
    stage.run(control.sweep(run))
    assert isinstance(take(stage, run, whom=Told.HOOKS, capable="\n"), Letter)


def test_a_worker_with_hooks_has_them_told_of_what_it_claims(stage: Stage) -> None:
    run = stage.root()
    call = running.claim(run, token="t", process=stage.process("p1"), capable=CAPABLE, tells_hooks=True)
    for _ in range(2):
        assert stage.run(call).record.tells == "s"
    stage.run(running.take_over(run, process=stage.process("p1"), dead=True, losses_before_end=1))
    letter = take(stage, run, whom=Told.HOOKS)
    assert isinstance(letter, Letter)
    assert letter.record.state is SubagentState.FAILED


def test_whatever_ends_a_run_puts_its_letter_out(stage: Stage) -> None:
    cancelled, late, claimed_late, interrupted, lost = (stage.root(tells="d") for _ in range(5))
    stage.cancel(cancelled)
    stage.run(control.sweep(cancelled))
    for run in (late, claimed_late):
        stage.server.hset(run.record, "dl", 1)
    stage.run(control.timer(late, again_ms=1000, grace_ms=0))
    stage.run(stage.claim_call(claimed_late))
    stage.run(control.interrupt(interrupted, reason="enough"))
    stage.give_up(lost)
    states = {
        run: take(stage, run).record.state for run in (cancelled, late, claimed_late, interrupted, lost)
    }
    assert states == {
        cancelled: SubagentState.CANCELLED,
        late: SubagentState.INTERRUPTED,
        claimed_late: SubagentState.INTERRUPTED,
        interrupted: SubagentState.INTERRUPTED,
        lost: SubagentState.FAILED,
    }


def test_a_letter_that_nobody_wants_any_more_expires_and_leaves_its_index(stage: Stage) -> None:
    run = ended(stage)
    left = stage.dump()
    assert all(left[name].expires for name in left if ":out:" in name)
    stage.server.delete(keys.letter(stage.tenant, run.run_id))
    assert take(stage, run) == HELD
    assert waiting(stage) == []


def test_a_purge_takes_the_letter_with_it(stage: Stage) -> None:
    run = ended(stage, tells="dsw")
    path = stage.record(run).path
    top = purging.Subtree(
        run, stage.session, run.run_id, path, purging.Goes.CONVERSATION, thread_id=run.run_id
    )
    stage.run(purging.remove(top, [run.run_id]))
    assert letters(stage) == []
