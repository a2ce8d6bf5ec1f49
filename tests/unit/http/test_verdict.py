"""What the answers to canaries amount to, and what of it anybody may read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from retinue.broker.canaries import CanaryAnswer
from retinue.broker.catalogue import CatalogueSnapshot, WorkerEntry
from retinue.http.readiness.canary_round import RoundAnswers
from retinue.http.readiness.verdict import (
    STARTS_WITHIN_S,
    Check,
    Verdict,
    consuming_check,
    queues_to_ask,
    workers_check,
)

NOW = 1_000.0
TAKEN, FULL = CanaryAnswer("p", is_full=False), CanaryAnswer("p", is_full=True)


def worker(process: str, *queues: str, **fields: Any) -> WorkerEntry:
    usual: dict[str, Any] = {"name": f"{process}@host", "agents": ("a",), "answers_canaries": True}
    return WorkerEntry(process, queues=queues or ("retinue",), **{**usual, **fields})


def snapshot(*workers: WorkerEntry) -> CatalogueSnapshot:
    return CatalogueSnapshot({each.process: each for each in workers}, {}, {}, frozenset())


def consuming(
    *workers: WorkerEntry,
    taken: Mapping[str, CanaryAnswer | None],
    queues: Mapping[str, CanaryAnswer | None],
    now: CatalogueSnapshot | None = None,
) -> Check:
    asked = snapshot(*workers)
    return consuming_check(asked, RoundAnswers(taken, queues), now or asked, at=NOW)


def test_all_that_is_taken_is_good() -> None:
    check = consuming(worker("p1"), taken={"p1": TAKEN}, queues={"retinue": TAKEN})
    assert (check.ok, check.detail) == (True, "1 of 1 workers take work")


def test_a_full_worker_is_good() -> None:
    check = consuming(worker("p1"), worker("p2"), taken={"p1": FULL, "p2": TAKEN}, queues={"retinue": FULL})
    assert (check.ok, check.detail) == (True, "1 of 2 workers take work; 1 full")
    check = consuming(worker("p1"), taken={"p1": FULL}, queues={"retinue": FULL})
    assert (check.ok, check.detail) == (True, "1 of 1 workers full")


def test_a_silent_worker_is_bad_though_another_serves_its_queue() -> None:
    check = consuming(worker("p1"), worker("p2"), taken={"p1": TAKEN, "p2": None}, queues={"retinue": TAKEN})
    assert not check.ok
    assert "p2@host" in check.detail
    assert "p2" not in check.counts
    assert "1 do not take work" in check.counts


def test_a_queue_that_nobody_takes_from_is_bad_though_the_workers_live() -> None:
    check = consuming(
        worker("p1", "retinue", "gpu"), taken={"p1": TAKEN}, queues={"retinue": TAKEN, "gpu": None}
    )
    assert not check.ok
    assert "queue gpu" in check.detail
    assert "gpu" not in check.counts
    assert "1 of 2 queues not served" in check.counts


def test_a_worker_that_has_no_queue_is_bad() -> None:
    lonely = WorkerEntry("p1", name="p1@host", agents=("a",), answers_canaries=True)
    check = consuming(lonely, taken={"p1": TAKEN}, queues={})
    assert not check.ok
    assert "takes from no queue" in check.detail


@pytest.mark.parametrize(
    "left", [snapshot(worker("p2")), snapshot(worker("p1", draining=True), worker("p2"))]
)
def test_who_drains_or_dies_while_it_is_asked_owes_no_answer(left: CatalogueSnapshot) -> None:
    check = consuming(
        worker("p1", "gpu"),
        worker("p2"),
        taken={"p1": None, "p2": TAKEN},
        queues={"retinue": TAKEN, "gpu": None},
        now=left,
    )
    assert (check.ok, check.detail) == (True, "1 of 1 workers take work")


def test_a_worker_that_has_just_come_has_time_unless_it_is_the_only_one() -> None:
    young = worker("p1", "gpu", started_at=NOW - STARTS_WITHIN_S + 1)
    alone = consuming(young, taken={"p1": None}, queues={"gpu": None})
    assert (alone.ok, alone.detail) == (False, "1 of 1 workers still start")
    beside = consuming(
        young, worker("p2"), taken={"p1": None, "p2": TAKEN}, queues={"gpu": None, "retinue": TAKEN}
    )
    assert beside.ok


def test_a_worker_of_an_older_release_is_trusted_and_its_queues_are_not_asked() -> None:
    old = worker("p1", "retinue", answers_canaries=False)
    assert queues_to_ask([old, worker("p2", "retinue", "gpu")]) == ["gpu"]
    check = consuming(old, taken={}, queues={})
    assert check.ok
    assert "1 of 1 workers cannot be asked" in check.detail


def test_names_are_told_only_to_those_who_may_know_them() -> None:
    check = consuming(worker("p1"), taken={"p1": None}, queues={"retinue": None})
    told = Verdict((check,)).to_dict(names=True)
    assert "p1@host" in told["checks"][0]["detail"]
    hidden = Verdict((check,)).to_dict(names=False)
    assert hidden == {
        "ready": False,
        "checks": [
            {
                "name": "consuming",
                "ok": False,
                "detail": "1 of 1 workers do not take work; 1 of 1 queues not served",
            }
        ],
    }


def test_nobody_to_take_work_is_bad() -> None:
    assert not workers_check(snapshot()).ok
    leaving = workers_check(snapshot(worker("p1", draining=True)))
    assert (leaving.ok, leaving.detail) == (
        False,
        "no live workers to take work; 1 drain or have one run to themselves",
    )
    assert workers_check(snapshot(worker("p1"))).detail == "1 live worker to take work"
