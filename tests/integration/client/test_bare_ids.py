"""The handle of a run of which only the id is at hand, in both colours."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker

from retinue.contract import new_run_id
from retinue.store import keys


@pytest.mark.usefixtures("worker")
def test_it_is_the_one_that_the_launch_gave(facades: Facades, lifecycle: Any) -> None:
    launched = lifecycle.launch(
        agent="support", goal="g", correlation_id="c-1", role="orchestrator", provider="openai"
    )
    for facade in (lifecycle, facades(), facades.operator()):
        assert facade.handle(launched.subagent_id) == launched


def test_a_run_that_has_ended_still_has_one(facades: Facades, lifecycle: Any, worker: StoreWorker) -> None:
    launched = lifecycle.launch(agent="support", goal="g")
    worker.complete(launched)
    assert lifecycle.handle(launched.subagent_id) == launched
    assert facades.operator().status(lifecycle.handle(launched.subagent_id)).handle == launched


@pytest.mark.usefixtures("worker")
def test_other_sessions_and_tenants_get_none_and_so_does_whoever_guesses(
    facades: Facades, lifecycle: Any, worker: StoreWorker
) -> None:
    launched = lifecycle.launch(agent="support", goal="g")
    for facade in (facades("another"), facades(tenant="acme"), facades.operator("acme")):
        assert facade.handle(launched.subagent_id) is None
    for value in (new_run_id(3), "nonsense", "", None, 7, launched, [launched.subagent_id]):
        assert lifecycle.handle(value) is None
    worker.link.execute("DEL", keys.record("_", launched.subagent_id))
    assert lifecycle.handle(launched.subagent_id) is None
