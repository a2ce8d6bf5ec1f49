"""Correlation ids: unique within a session for as long as their run is kept."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.integration.store.stage import Stage

from retinue.store import keys
from retinue.store.operations.launching import DuplicateCorrelation, Launched

TICKET = keys.correlation_digest("customer-42", "ticket-9001")


def _holder(stage: Stage, **changes: Any) -> str:
    return stage.root(correlation=TICKET, **changes).run_id


def test_a_taken_correlation_id_is_refused_and_names_its_run(stage: Stage) -> None:
    holder = _holder(stage)
    before = stage.dump()
    refused = stage.launch(stage.new_run(correlation=TICKET))
    assert refused == DuplicateCorrelation(holder, same=False, conflict=False)
    assert stage.dump() == before


def test_the_same_request_gets_the_existing_run_where_it_asks_for_it(stage: Stage) -> None:
    holder = _holder(stage)
    before = stage.dump()
    found = stage.launch(stage.new_run(correlation=TICKET, return_duplicate=True))
    assert found == DuplicateCorrelation(holder, same=True, conflict=False)
    assert stage.dump() == before


def test_another_request_under_it_is_a_conflict(stage: Stage) -> None:
    holder = _holder(stage)
    before = stage.dump()
    other = stage.new_run(correlation=TICKET, return_duplicate=True, digest="e" * 64)
    assert stage.launch(other) == DuplicateCorrelation(holder, same=False, conflict=True)
    assert stage.dump() == before


def test_a_repeat_of_the_launch_that_took_it_is_a_repeat(stage: Stage) -> None:
    new = stage.new_run(correlation=TICKET)
    stage.launch(new)
    assert stage.launch(new).runs[0].repeated


def test_a_batch_with_one_taken_id_launches_nothing(stage: Stage) -> None:
    holder = _holder(stage)
    before = stage.dump()
    refused = stage.launch(stage.new_run(), stage.new_run(correlation=TICKET))
    assert refused == DuplicateCorrelation(holder, same=False, conflict=False)
    assert stage.dump() == before


def test_a_batch_cannot_use_one_id_twice(stage: Stage) -> None:
    first, second = stage.new_run(correlation=TICKET), stage.new_run(correlation=TICKET)
    before = stage.dump()
    assert stage.launch(first, second) == DuplicateCorrelation(first.run_id, same=False, conflict=False)
    assert stage.dump() == before


def test_it_is_kept_as_long_as_its_run_and_comes_free_with_it(stage: Stage) -> None:
    new = stage.new_run(correlation=TICKET, result_ttl_s=1800)
    stage.launch(new)
    run, key = stage.key(new.run_id), stage.part(stage.key(new.run_id), f"corr:{TICKET}")
    assert stage.server.ttl(key) == -1
    stage.end(run)
    assert 1790 < stage.server.ttl(key) <= 1800
    assert isinstance(stage.launch(stage.new_run(correlation=TICKET)), DuplicateCorrelation)
    stage.forget(run)
    stage.server.delete(key)
    assert isinstance(stage.launch(stage.new_run(correlation=TICKET)), Launched)


def test_sessions_and_tenants_do_not_share_ids() -> None:
    digests = {
        keys.correlation_digest(session, ticket) for session, ticket in (("a", "b"), ("ab", ""), ("a", "c"))
    }
    assert len(digests) == 3


@pytest.mark.parametrize("on_duplicate", ["raise", "return"])
def test_of_concurrent_launches_under_one_id_exactly_one_runs(stage: Stage, on_duplicate: str) -> None:
    new = [stage.new_run(correlation=TICKET, return_duplicate=on_duplicate == "return") for _ in range(8)]
    start, replies = threading.Barrier(len(new)), []

    def launch(run: Any) -> None:
        start.wait(30)
        replies.append(stage.launch(run))

    workers = [threading.Thread(target=launch, args=(run,)) for run in new]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    (winner,) = (reply.runs[0].run_id for reply in replies if isinstance(reply, Launched))
    others = [reply for reply in replies if not isinstance(reply, Launched)]
    assert others == [DuplicateCorrelation(winner, same=on_duplicate == "return", conflict=False)] * 7
    assert stage.queued() == [winner]
