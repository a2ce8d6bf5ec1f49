"""Dead worker processes: noticed only on good evidence, and nothing that they held is lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.integration.broker.watch import Watch, until

from retinue.broker.reaper.casualties import LOOKS_BEFORE_DEATH, Casualties
from retinue.broker.routes import private_queue, queue_keys
from retinue.broker.settings import Settings
from retinue.contract import ErrorClassification, Phase, StoreUnavailableError, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.keys import provider_places
from retinue.store.operations.provider_places import ProviderLimits, acquire_place


async def dead_worker(watch: Watch, name: str = "p1") -> str:
    """A process with the id that the stage's claims bear, without a lease."""
    process = await watch.worker(watch.stage.process(name))
    watch.kill(process)
    return process


async def look(casualties: Casualties, times: int = LOOKS_BEFORE_DEATH) -> None:
    for _ in range(times):
        await casualties.look()


def workers(watch: Watch) -> set[str]:
    return set(watch.server.hkeys(keys.WORKERS))


def owner(watch: Watch, run: RunKey) -> str | None:
    return watch.stage.record(run).owner


async def test_what_a_dead_process_held_is_queued_again_and_nothing_is_left_of_it(watch: Watch) -> None:
    stage = watch.stage
    runs = [stage.root() for _ in range(70)]
    for run in runs:
        stage.asking(run)
    process = await dead_worker(watch)
    lists = queue_keys(private_queue(process))
    for name in lists:
        watch.server.lpush(name, "a message")

    await look(watch.casualties())

    assert {stage.record(run).phase for run in runs} == {Phase.QUEUED}
    assert sorted(watch.messages()) == sorted(run.run_id for run in runs)
    assert stage.owned() == []
    assert watch.server.exists(*lists) == 0
    assert workers(watch) == set()
    stage.audit()


async def test_its_places_at_providers_with_limits_come_free(watch: Watch) -> None:
    providers = {
        "narrow": {"base_url": "http://narrow/v1", "max_concurrency": 3},
        "free": {"base_url": "http://free/v1"},
    }
    watch.settings = Settings.read(store_url=watch.url, providers=providers)
    process = await dead_worker(watch)
    limits = ProviderLimits(max_concurrency=3)
    for owner_of_place in (process, process, "another"):
        place = f"{owner_of_place}:token:{watch.server.zcard(provider_places('narrow')[1])}"
        assert await watch.store.run(acquire_place("narrow", place, limits, tokens=0)) == 0

    await look(watch.casualties())

    assert watch.server.zrange(provider_places("narrow")[1], 0, -1) == ["another:token:2"]
    assert watch.link.calls["free_places"] == 1, "nobody asks after a provider without limits"


async def test_two_looks_are_not_enough(watch: Watch) -> None:
    run = watch.stage.root()
    watch.stage.claim(run)
    process = await dead_worker(watch)

    await look(watch.casualties(), LOOKS_BEFORE_DEATH - 1)

    assert owner(watch, run) == process
    assert workers(watch) == {process}


async def test_a_process_whose_lease_comes_back_is_spared(watch: Watch) -> None:
    run = watch.stage.root()
    watch.stage.claim(run)
    process = await dead_worker(watch)
    casualties = watch.casualties()

    await look(casualties, 2)
    watch.renew(process)
    await look(casualties, 5)
    assert owner(watch, run) == process

    watch.kill(process)
    await look(casualties, 2)
    assert owner(watch, run) == process, "the earlier looks do not count"
    await look(casualties, 1)
    assert owner(watch, run) is None


async def test_only_the_dead_are_buried(watch: Watch) -> None:
    stage = watch.stage
    alive, lost = stage.root(), stage.root()
    living = await watch.worker(stage.process("living"))
    stage.claim(alive, process="living")
    stage.claim(lost)
    await dead_worker(watch)

    await look(watch.casualties(), 5)

    assert (owner(watch, alive), owner(watch, lost)) == (living, None)
    assert workers(watch) == {living}


async def test_runs_of_all_tenants_and_partitions_are_found(watch: Watch) -> None:
    process = await watch.worker("shared")
    stages = [watch.new_stage() for _ in range(12)]
    assert len({stage.partition for stage in stages}) > 3
    runs: list[tuple[Any, RunKey]] = []
    for stage in stages:
        stage.process = lambda _name: process
        run = stage.root()
        stage.asking(run)
        runs.append((stage, run))
    watch.kill(process)

    await look(watch.casualties())

    assert {stage.record(run).phase for stage, run in runs} == {Phase.QUEUED}
    assert sorted(watch.messages()) == sorted(run.run_id for _, run in runs)


async def test_what_the_process_does_not_hold_any_more_is_left_alone(watch: Watch) -> None:
    stage = watch.stage
    suspended, ended, elsewhere = stage.root(), stage.root(), stage.root()
    stage.waiting(suspended)
    stage.end(ended, process="p1")
    stage.claim(elsewhere, process="p2")
    before = stage.dump()
    await dead_worker(watch)
    # As if these had stood there when the reaper read the set, and had gone since.
    for run in (suspended, ended, elsewhere):
        watch.server.sadd(keys.owned(stage.partition, stage.process("p1")), run.member)

    await look(watch.casualties())

    assert watch.messages() == []
    assert stage.dump() == before


async def test_the_third_counted_loss_fails_the_run_and_wakes_its_parent(watch: Watch) -> None:
    stage = watch.stage
    root = stage.root()
    _, (child,) = stage.waiting(root)
    casualties = watch.casualties()
    for loss in range(1, 4):
        assert stage.state(child) is not SubagentState.FAILED, loss
        stage.claim(child)
        await dead_worker(watch)
        await look(casualties)

    record = stage.record(child)
    assert (record.state, record.classification) == (SubagentState.FAILED, ErrorClassification.WORKER_LOST)
    assert stage.record(root).phase is Phase.QUEUED
    assert watch.messages().count(root.run_id) == 1
    stage.audit()


@pytest.mark.parametrize("done_before", [0, 2])
async def test_a_burial_that_was_broken_off_is_repeated_without_harm(watch: Watch, done_before: int) -> None:
    stage = watch.stage
    runs = [stage.root() for _ in range(4)]
    for run in runs:
        stage.asking(run)
    process = await dead_worker(watch)
    watch.link.fail_at = {"take_over": done_before + 1}

    first = watch.casualties()
    await look(first, LOOKS_BEFORE_DEATH - 1)
    with pytest.raises(StoreUnavailableError):
        await first.look()
    assert workers(watch) == {process}, "so that another one comes to it"
    await look(watch.casualties())

    assert [stage.record(run).wakeup for run in runs] == [2] * 4
    assert sorted(watch.messages()) == sorted(run.run_id for run in runs)
    assert workers(watch) == set()
    stage.audit()


async def test_a_process_that_thaws_and_dies_again_loses_nothing(watch: Watch) -> None:
    stage = watch.stage
    process = await dead_worker(watch)
    casualties = watch.casualties()
    await look(casualties)
    # A message that lay in its socket is claimed; it dies before it says that it is there again.
    run = stage.root()
    stage.claim(run)
    watch.server.lpush(private_queue(process), "a message for the one that seemed alive")

    await watch.casualties().look()

    assert stage.record(run).phase is Phase.QUEUED
    assert watch.messages() == [run.run_id]
    assert watch.server.exists(private_queue(process)) == 0


async def test_a_process_that_thaws_and_lives_is_left_in_peace(watch: Watch) -> None:
    stage = watch.stage
    process = await dead_worker(watch)
    await look(watch.casualties())
    run = stage.root()
    stage.claim(run)
    watch.renew(process)

    await watch.casualties().look()
    assert owner(watch, run) == process

    await watch.worker(process)
    watch.kill(process)
    await watch.casualties().look()
    assert owner(watch, run) == process, "it has advertised itself: now three looks decide again"


async def test_a_broker_that_is_away_does_not_keep_runs_from_being_taken_over(watch: Watch) -> None:
    class Away:
        async def execute(self, *args: Any) -> Any:
            raise StoreUnavailableError("away")

        async def pipeline(self, commands: Any, /) -> list[Any]:
            raise StoreUnavailableError("away")

    run = watch.stage.root()
    watch.stage.claim(run)
    await dead_worker(watch)

    await look(Casualties(watch.store, watch.link, Away(), watch.waker, watch.settings))

    assert watch.stage.record(run).phase is Phase.QUEUED
    assert workers(watch) == set()


async def test_after_a_doubt_every_process_gets_the_time_to_renew(watch: Watch) -> None:
    watch.settings = watch.settings.model_copy(update={"lease_seconds": 1.0})
    process = await dead_worker(watch)
    casualties = watch.casualties()
    await look(casualties, 2)

    casualties.doubt()
    doubted = time.monotonic()
    async with asyncio.timeout(60):
        while process in workers(watch):
            await casualties.look()
            await asyncio.sleep(0.02)

    assert time.monotonic() - doubted >= 1.0


@pytest.mark.parametrize("trouble", ["error", "slow"])
async def test_an_outage_or_a_slow_tick_in_between_starts_the_count_anew(watch: Watch, trouble: str) -> None:
    watch.settings = watch.settings.model_copy(update={"lease_seconds": 1.0})
    process = await dead_worker(watch)
    reaper = watch.reaper("reaper")
    loop = asyncio.create_task(reaper.run())
    await until(lambda: watch.link.calls.get("elect", 0) >= 2)
    if trouble == "error":
        troubled = time.monotonic()
        doomed = watch.link.calls["elect"] + 1
        watch.link.fail_at = {"elect": doomed}
        await until(lambda: watch.link.calls["elect"] >= doomed)
    else:
        # The loop stands still for longer than a lease may go without renewal.
        time.sleep(0.9)  # noqa: ASYNC251
        troubled = time.monotonic()
    await until(lambda: process not in workers(watch))
    loop.cancel()
    await asyncio.wait([loop])

    assert time.monotonic() - troubled >= 1.0


async def test_a_lease_from_before_the_clock_was_put_back_ends_in_time(watch: Watch) -> None:
    process = await watch.worker(watch.stage.process("p1"))
    watch.server.pexpire(keys.lease(process), 3_600_000)

    await watch.casualties().look()

    assert 0 < watch.server.pttl(keys.lease(process)) <= 10_000 * watch.settings.lease_seconds
