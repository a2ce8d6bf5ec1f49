"""Runs that are given up: who may have them before, and the letters that are left of them."""

from __future__ import annotations

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import DeadLetter, ErrorClassification, SubagentState
from retinue.store.call import RunKey
from retinue.store.operations import dead_letters, running
from retinue.store.operations.launching import Launched, LetterGone
from retinue.store.replies import Claimed, Ended, NotClaimed, Queued


def letters(stage: Stage, *, session: str | None = None, most: int = 100) -> list[DeadLetter]:
    """The tenant's dead letters."""
    call = dead_letters.read_letters(stage.tenant, stage.partition, session_id=session, most=most)
    return stage.run(call)


def lose(stage: Stage, run: RunKey) -> Queued | Ended | None:
    """The process that holds the run is lost."""
    return stage.run(running.take_over(run, process=stage.process("p1"), dead=True, losses_before_end=3))


def test_a_run_that_a_process_was_lost_with_is_for_a_process_that_has_nothing_else(stage: Stage) -> None:
    root = stage.root()
    stage.claim(root)
    assert isinstance(lose(stage, root), Queued)
    assert stage.run(stage.claim_call(root, alone=False)) == NotClaimed("SUSPECT", "")
    assert stage.queued() == [root.run_id], "it waits on"
    assert isinstance(stage.run(stage.claim_call(root, alone=True)), Claimed)


def test_a_run_whose_process_was_lost_while_it_waited_for_its_model_is_no_suspect(stage: Stage) -> None:
    root = stage.root()
    stage.asking(root)
    assert isinstance(lose(stage, root), Queued)
    assert isinstance(stage.run(stage.claim_call(root, alone=False)), Claimed)


def test_a_suspect_under_a_cancel_needs_no_process_of_its_own_to_end(stage: Stage) -> None:
    root = stage.root()
    stage.claim(root)
    lose(stage, root)
    stage.cancel(root)
    ended = stage.run(stage.claim_call(root, alone=False))
    assert isinstance(ended, Ended)
    assert ended.state is SubagentState.CANCELLED


def test_a_run_that_is_given_up_leaves_a_letter_with_its_request(stage: Stage) -> None:
    root = stage.root(request_json='{"request":{"goal":"g"}}')
    assert stage.give_up(root).state is SubagentState.FAILED
    (listed,) = letters(stage)
    assert (listed.run_id, listed.session_id, listed.agent) == (root.run_id, stage.session, "support")
    assert listed.error_classification is ErrorClassification.WORKER_LOST
    assert (listed.losses, listed.parent_id, listed.root_id) == (3, None, root.run_id)
    assert listed.request is None
    assert listed.ended_at == (stage.record(root).finished_ms or 0) / 1000
    letter = stage.run(dead_letters.read_letter(root))
    assert letter.request == {"goal": "g"}


def test_a_run_that_its_processes_disown_leaves_a_letter_too(stage: Stage) -> None:
    root = stage.root()
    for _ in range(3):
        stage.claim(root)
        stage.run(running.take_over(root, process=stage.process("p1"), dead=False, losses_before_end=3))
    assert [letter.error_classification for letter in letters(stage)] == [ErrorClassification.INTERNAL_ERROR]


def test_letters_are_listed_newest_first_and_by_session(stage: Stage) -> None:
    runs = [stage.root() for _ in range(3)]
    for run in runs:
        stage.give_up(run)
    ids = [letter.run_id for letter in letters(stage)]
    assert sorted(ids) == sorted(run.run_id for run in runs)
    assert [each.ended_at for each in letters(stage)] == sorted(
        (each.ended_at for each in letters(stage)), reverse=True
    )
    assert len(letters(stage, most=2)) == 2
    assert letters(stage, session="another") == []
    assert stage.run(dead_letters.read_letter(runs[0], session_id="another")) is None


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """At most two letters are kept."""
    monkeypatch.setattr(running, "MOST_KEPT", 2)
    return 2


def test_only_so_many_letters_are_kept_and_the_oldest_go_first(stage: Stage, few: int) -> None:
    runs = [stage.root() for _ in range(few + 2)]
    for at, run in enumerate(runs):
        stage.give_up(run)
        # Two may end within a millisecond: then their order is not told by when.
        key = f"retinue:{stage.tenant}:{{p{stage.partition:02d}}}:dead"
        stage.server.zadd(key, {run.run_id: at + 1e12}, xx=True)
    stage.give_up(last := stage.root())
    kept = {letter.run_id for letter in letters(stage)}
    assert kept <= {run.run_id for run in (*runs[-1:], last)}
    assert last.run_id in kept


def test_a_letter_that_is_thrown_away_is_gone_for_its_session_only(stage: Stage) -> None:
    root = stage.root()
    stage.give_up(root)
    assert stage.run(dead_letters.discard(root, session_id="another")) is False
    assert stage.run(dead_letters.discard(root, session_id=stage.session)) is True
    assert stage.run(dead_letters.discard(root)) is False
    assert letters(stage) == []


def test_a_replay_takes_the_letter_away_in_the_same_step_and_once_only(stage: Stage) -> None:
    root = stage.root()
    stage.give_up(root)
    again = stage.new_run(replays=root.run_id)
    first = stage.run(stage.launch_call(again))
    assert isinstance(first, Launched)
    assert letters(stage) == []
    assert stage.record(RunKey(stage.tenant, again.run_id)).replays == root.run_id
    repeated = stage.run(stage.launch_call(again))
    assert [run.repeated for run in repeated.runs] == [True], "a reply that was lost"
    assert stage.run(stage.launch_call(stage.new_run(replays=root.run_id))) == LetterGone(root.run_id)


def test_everything_of_a_letter_expires(stage: Stage) -> None:
    stage.give_up(stage.root())
    kept = {name: stored for name, stored in stage.dump().items() if ":dead" in name}
    assert len(kept) == 2
    assert all(stored.expires for stored in kept.values())
