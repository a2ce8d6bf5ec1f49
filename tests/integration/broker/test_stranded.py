"""Runs whose agent no live worker has: they say so, stay claimable, and are woken when one comes."""

from __future__ import annotations

import time

from tests.integration.broker.watch import Watch

from retinue.broker.routes import private_queue
from retinue.contract import Phase, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey


def phase(watch: Watch, run: RunKey) -> Phase:
    return watch.stage.record(run).phase


async def test_a_run_that_no_live_worker_can_run_says_so_and_stays_claimable(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    lonely, common = await watch.queued(1, message=True, agent="researcher") + await watch.queued(
        1, message=True
    )

    await watch.stranded().look()

    assert (watch.stage.state(lonely), phase(watch, lonely)) == (SubagentState.PENDING, Phase.NO_WORKER)
    assert phase(watch, common) is Phase.QUEUED
    assert watch.stage.claim(lonely).fence.epoch == 1


async def test_it_is_woken_as_soon_as_a_worker_comes(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    [run] = await watch.queued(1, message=False, agent="researcher")
    stranded = watch.stranded()
    await stranded.look()
    assert phase(watch, run) is Phase.NO_WORKER

    await watch.worker("p2", agents=["researcher"])
    await stranded.look()

    assert phase(watch, run) is Phase.QUEUED
    assert watch.messages(private_queue("p2")) == [run.run_id], "p1 must not take it away again"
    await stranded.look()
    assert len(watch.messages(private_queue("p2"))) == 1


async def test_a_run_that_was_on_a_worker_before_stays_queued(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    [run] = await watch.queued(1, message=True, agent="researcher")
    watch.stage.run(watch.stage.claim(run).hand_back())

    await watch.stranded().look()

    assert phase(watch, run) is Phase.QUEUED


async def test_a_queue_longer_than_a_look_is_gone_through_page_by_page(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    for _ in range(9):
        watch.stage.launch(*(watch.stage.new_run() for _ in range(50)))
    [run] = await watch.queued(1, message=False, agent="researcher")
    watch.queued_at(run, round(time.time() * 1000) + 1)  # behind all of them
    stranded = watch.stranded()

    for _ in range(3):
        assert phase(watch, run) is Phase.QUEUED
        await stranded.look()
    assert phase(watch, run) is Phase.NO_WORKER

    await watch.worker("p1", agents=["support", "researcher"])
    for _ in range(3):
        await stranded.look()
    assert phase(watch, run) is Phase.QUEUED, "and from the start again"


async def test_where_nobody_seems_to_live_nothing_is_said(watch: Watch) -> None:
    # The one who looks lives, so the leases only could not be renewed.
    await watch.worker("p1")
    watch.kill("p1")
    [run] = await watch.queued(1, message=True)

    await watch.stranded().look()

    assert phase(watch, run) is Phase.QUEUED


async def test_a_worker_that_drains_is_none_that_could_run_it(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    await watch.worker("p2", draining=True)
    [run] = await watch.queued(1, message=True, agent="researcher")

    await watch.stranded().look()

    assert phase(watch, run) is Phase.NO_WORKER


async def test_it_looks_only_now_and_then(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    stranded = watch.stranded(every_s=3600.0)
    await stranded.look()
    [run] = await watch.queued(1, message=True, agent="researcher")

    await stranded.look()

    assert phase(watch, run) is Phase.QUEUED


async def test_runs_in_a_queue_that_only_the_client_knows_say_that_no_worker_has_their_agent(
    watch: Watch,
) -> None:
    await watch.worker("p1", agents=["support"])
    [run] = await watch.queued(1, message=True, agent="researcher", queue="elsewhere")

    await watch.stranded().look()

    assert phase(watch, run) is Phase.NO_WORKER


async def test_a_queue_that_nobody_serves_for_long_is_passed_by_where_a_worker_has_the_agent(
    watch: Watch,
) -> None:
    await watch.worker("p1")
    [run] = await watch.queued(1, message=True, queue="elsewhere")
    patient, hasty = watch.stranded(), watch.stranded(unserved_s=0.0)

    await patient.look()
    await patient.look()
    assert watch.messages(private_queue("p1")) == [], "its workers may only be starting anew"

    await hasty.look()
    assert watch.messages(private_queue("p1")) == [run.run_id]
    await hasty.look()
    assert len(watch.messages(private_queue("p1"))) == 1


async def test_a_queue_that_an_operator_chose_is_waited_for_however_long_nobody_serves_it(
    watch: Watch,
) -> None:
    await watch.worker("p1")
    watch.settings = watch.settings.model_copy(update={"routes": {"researcher": "gpu"}})
    await watch.queued(1, message=True, queue="gpu")
    stranded = watch.stranded(unserved_s=0.0)

    await stranded.look()
    await stranded.look()

    assert watch.messages(private_queue("p1")) == []


async def test_a_queue_that_somebody_serves_again_is_waited_for_anew(watch: Watch) -> None:
    await watch.worker("p1")
    await watch.queued(1, message=True, queue="gpu")
    stranded = watch.stranded(unserved_s=0.0)
    await watch.worker("p2", queues=["gpu"])

    await stranded.look()

    assert watch.messages(private_queue("p1")) == []


async def test_a_queue_without_runs_and_without_workers_is_forgotten(watch: Watch) -> None:
    await watch.worker("p1")
    kept, over = await watch.queued(2, message=True, queue="gpu")
    [served] = await watch.queued(1, message=True)
    known = keys.queues(watch.stage.partition)

    for run in (over, served):
        watch.stage.end(run)
        await watch.stranded().look()
        assert watch.server.smembers(known) == {"gpu", "retinue"}

    watch.stage.end(kept)
    await watch.stranded().look()
    assert watch.server.smembers(known) == {"retinue"}
