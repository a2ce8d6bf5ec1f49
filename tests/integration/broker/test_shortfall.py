"""Lost wake-ups: sent again, the longest-queued first, and never more of them than are missing."""

from __future__ import annotations

import time

import pytest
from tests.integration.broker.watch import Watch

from retinue.broker.reaper.resending import MOST_PRIVATE
from retinue.broker.reaper.shortfall import MOST_RESENT, Shortfall
from retinue.broker.routes import private_queue, queue_key
from retinue.broker.wakeups import Waker
from retinue.store.call import RunKey
from retinue.store.connections.link import AsyncLink
from retinue.store.operations import running
from retinue.store.replies import Claimed, NotClaimed
from retinue.testing.servers import PrivateServer


def ids(runs: list[RunKey]) -> list[str]:
    return [run.run_id for run in runs]


async def look(shortfall: Shortfall, times: int = 2) -> None:
    for _ in range(times):
        await shortfall.look()


async def test_messages_that_vanished_are_sent_again_at_the_second_look(watch: Watch) -> None:
    await watch.worker("p1")
    runs = await watch.queued(3, message=False)
    shortfall = watch.shortfall()

    await shortfall.look()
    assert watch.messages() == []

    await shortfall.look()
    assert watch.messages() == ids(runs)
    assert [watch.stage.record(run).wakeup for run in runs] == [2, 2, 2], "a task id is never used twice"


async def test_the_longest_queued_come_first_whatever_their_partition_and_tenant(watch: Watch) -> None:
    await watch.worker("p1")
    runs: list[RunKey] = []
    for _ in range(8):
        watch.stage = watch.new_stage()
        runs += await watch.queued(1, message=False)

    await look(watch.shortfall())

    assert watch.messages() == ids(runs)


async def test_only_as_many_as_are_missing_are_sent(watch: Watch) -> None:
    await watch.worker("p1")
    lost = await watch.queued(2, message=False)
    await watch.queued(30, message=True)
    shortfall = watch.shortfall()

    await look(shortfall, 6)

    assert len(watch.messages()) == 32
    assert watch.messages()[-2:] == ids(lost), "sent once each, behind those that are there"


async def test_while_every_queued_run_has_its_message_none_is_sent(watch: Watch) -> None:
    await watch.worker("p1")
    runs = await watch.queued(5, message=True)

    await look(watch.shortfall(), 5)

    assert watch.messages() == ids(runs)


async def test_what_was_queued_since_the_last_look_is_on_its_way(watch: Watch) -> None:
    await watch.worker("p1")
    [old] = await watch.queued(1, message=False)
    shortfall = watch.shortfall()
    await shortfall.look()
    watch.stage.end(old)
    [new] = await watch.queued(1, message=False)
    watch.queued_at(new, round(time.time() * 1000) + 5_000)

    await shortfall.look()

    assert watch.messages() == []


async def test_a_run_that_was_woken_again_is_left_alone_for_a_while(watch: Watch) -> None:
    await watch.worker("p1")
    [run] = await watch.queued(1, message=False)
    shortfall = watch.shortfall()
    await look(shortfall)
    assert watch.drain() == [run.run_id]

    await look(shortfall, 4)
    assert watch.messages() == []

    watch.over_its_back_off(run)
    await look(shortfall)
    assert watch.messages() == [run.run_id]


async def test_a_run_that_is_gone_from_the_queue_is_not_woken(watch: Watch) -> None:
    await watch.worker("p1")
    held, waiting, ended = await watch.queued(3, message=False)
    watch.stage.claim(held)
    watch.stage.waiting(waiting, queue="elsewhere")
    watch.stage.end(ended)

    await look(watch.shortfall(), 3)

    assert watch.messages() == []


async def test_a_resumed_run_is_woken_as_one(watch: Watch) -> None:
    await watch.worker("p1")
    [run] = await watch.queued(1, message=False)
    watch.stage.run(watch.stage.claim(run).hand_back())

    await look(watch.shortfall())

    assert watch.server.llen(queue_key("retinue", 0)) == 1
    assert watch.messages() == [run.run_id]


async def test_stale_messages_hide_a_lost_one_only_while_they_are_there(watch: Watch) -> None:
    await watch.worker("p1")
    stale = await watch.queued(20, message=True)
    for run in stale:
        watch.stage.cancel(run)
        watch.stage.sweep(run)
    [lost] = await watch.queued(1, message=False)
    shortfall = watch.shortfall()
    await look(shortfall)
    assert lost.run_id not in watch.messages()

    for run in watch.drain():
        reply = watch.stage.run(watch.stage.claim_call(watch.stage.key(run)))
        assert not isinstance(reply, Claimed), "dropped"
    await look(shortfall)

    assert watch.messages() == [lost.run_id]


async def test_runs_that_nothing_can_be_done_for_do_not_hide_those_behind_them(watch: Watch) -> None:
    await watch.worker("p1")
    for _ in range(5):
        new = [watch.stage.new_run(agent="antique") for _ in range(100)]
        watch.stage.launch(*new[:50])
        watch.stage.launch(*new[50:])
    [lost] = await watch.queued(1, message=False)
    watch.queued_at(lost, round(time.time() * 1000) + 1)  # behind all of them
    shortfall = watch.shortfall()

    await look(shortfall, 1 + 500 // MOST_RESENT + 2)

    assert watch.messages() == [lost.run_id]


async def test_a_run_whose_message_was_taken_by_a_worker_without_its_agent_goes_to_one_that_has_it(
    watch: Watch,
) -> None:
    await watch.worker("p1", agents=["support"])
    await watch.worker("p2", agents=["support", "researcher"])
    [run] = await watch.queued(1, message=True, agent="researcher")
    watch.drain()
    call = watch.stage.claim_call(run, capable=running.capability(["support"], []))
    assert watch.stage.run(call) == NotClaimed("NOT_CAPABLE", "researcher")

    await look(watch.shortfall())

    assert watch.messages(private_queue("p2")) == [run.run_id]
    assert watch.messages() == []


async def test_what_waits_for_one_busy_worker_does_not_pile_up_in_its_private_queue(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    await watch.worker("p2", agents=["support", "researcher"])
    runs = await watch.queued(1000, message=False, agent="researcher")
    shortfall = watch.shortfall()

    for _ in range(5):
        await look(shortfall, 10)
        watch.over_its_back_off(*runs)

    waiting = watch.messages(private_queue("p2"))
    assert len(waiting) <= MOST_PRIVATE
    assert waiting[0] == runs[0].run_id

    watch.drain(private_queue("p2"))
    for run in waiting:
        watch.stage.end(RunKey(runs[0].tenant, run))
    await look(shortfall, 10)
    assert len(set(watch.messages(private_queue("p2"))) - set(waiting)) == MOST_PRIVATE


async def test_a_worker_that_drains_is_sent_nothing(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    await watch.worker("p2", agents=["researcher"], draining=True)
    [run] = await watch.queued(1, message=False, agent="researcher")

    await look(watch.shortfall(), 3)

    assert watch.messages(private_queue("p2")) == []
    assert watch.stage.record(run).wakeup == 1, "its back-off has not begun"


async def test_a_queue_that_nobody_serves_is_passed_by(watch: Watch) -> None:
    await watch.worker("p1", queues=["gpu"])
    [run] = await watch.queued(1, message=False)

    await look(watch.shortfall())

    assert watch.messages(private_queue("p1")) == [run.run_id]


async def test_a_worker_that_has_died_is_sent_nothing(watch: Watch) -> None:
    await watch.worker("p1", agents=["support"])
    await watch.worker("p2", agents=["researcher"])
    shortfall = watch.shortfall()
    [run] = await watch.queued(1, message=False, agent="researcher")
    await shortfall.look()
    watch.kill("p2")

    await look(shortfall, 2)

    assert watch.messages(private_queue("p2")) == []
    assert watch.messages() == []
    assert watch.stage.record(run).wakeup == 1, "its back-off has not begun"


async def test_routes_name_queues_that_are_looked_at_even_if_nobody_serves_them(watch: Watch) -> None:
    watch.settings = watch.settings.model_copy(update={"routes": {"support": "rare"}})
    await watch.worker("p1")
    [run] = await watch.queued(1, message=False, queue="rare")

    await look(watch.shortfall())

    assert watch.messages(private_queue("p1")) == [run.run_id]


async def test_a_queue_that_only_the_client_knows_is_looked_at_too(watch: Watch) -> None:
    await watch.worker("p1")
    [run] = await watch.queued(1, message=False, queue="elsewhere")

    await look(watch.shortfall())

    assert watch.messages(private_queue("p1")) == [run.run_id]


async def test_a_thousand_runs_behind_busy_slots_cause_no_storm(watch: Watch) -> None:
    await watch.worker("p1")
    await watch.queued(1000, message=True)
    shortfall = watch.shortfall()
    watch.server.config_resetstat()

    await look(shortfall, 20)

    assert len(watch.messages()) == 1000
    assert "cmdstat_lpush" not in watch.server.info("commandstats")


async def test_a_thousand_lost_messages_are_sent_once_each_while_all_slots_are_busy(watch: Watch) -> None:
    await watch.worker("p1")
    runs = await watch.queued(1000, message=False)

    await look(watch.shortfall(), 20)

    assert watch.messages() == ids(runs)


async def test_a_broker_of_its_own_is_counted_there(watch: Watch, store_server: PrivateServer) -> None:
    await watch.worker("p1")
    broker = AsyncLink(watch.url.replace("/0", "/1"))
    waker = Waker(watch.waker.app, template=watch.waker.template, link=broker)
    runs = await watch.queued(3, message=False)
    shortfall = Shortfall(watch.store, watch.link, broker, waker, watch.settings)
    try:
        await look(shortfall, 5)
    finally:
        await broker.close()

    assert watch.messages() == []
    with store_server.client(db=1) as other:
        assert other.llen(queue_key("retinue", 6)) == len(runs)


@pytest.mark.parametrize("forget", [True, False])
async def test_a_look_of_before_a_break_is_no_evidence(watch: Watch, forget: bool) -> None:
    await watch.worker("p1")
    await watch.queued(1, message=False)
    shortfall = watch.shortfall()
    await shortfall.look()
    if forget:
        shortfall.forget()

    await shortfall.look()

    assert len(watch.messages()) == (0 if forget else 1)


@pytest.mark.parametrize("noted", ["queued", "backed off"])
async def test_what_was_noted_before_the_clock_was_put_back_holds_nothing_up(
    watch: Watch, noted: str
) -> None:
    await watch.worker("p1")
    [run] = await watch.queued(1, message=False)
    ahead_ms = round(time.time() * 1000) + 3_600_000
    if noted == "queued":
        watch.queued_at(run, ahead_ms)
    else:
        watch.server.hset(run.record, "ra", ahead_ms)

    await look(watch.shortfall())

    assert watch.messages() == [run.run_id]
