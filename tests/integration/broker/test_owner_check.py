"""Runs that stand in a process's name though it does not run them are handed back, and only those."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.broker.watch import Watch, until

from retinue.broker.reaper.owner_check import OwnerCheck
from retinue.contract import Phase
from retinue.store import keys
from retinue.store.call import RunKey


def check_of(watch: Watch, held: set[str], *, every_s: float = 5.0) -> OwnerCheck:
    process = watch.stage.process("p1")
    return OwnerCheck(
        watch.store, watch.link, watch.waker, watch.settings, process, lambda: set(held), every_s=every_s
    )


def phase(watch: Watch, run: RunKey) -> Phase:
    return watch.stage.record(run).phase


async def test_a_run_whose_claim_was_never_answered_is_handed_back_at_the_second_check(watch: Watch) -> None:
    run, held = watch.stage.root(), watch.stage.root()
    watch.stage.claim(run)
    watch.stage.claim(held)
    check = check_of(watch, {held.member})

    assert await check.check() == 0
    assert phase(watch, run) is Phase.CLAIMED
    assert await check.check() == 1

    assert (phase(watch, run), phase(watch, held)) == (Phase.QUEUED, Phase.CLAIMED)
    assert watch.messages() == [run.run_id]
    assert watch.stage.record(run).fields["ls"] == "0", "no attempt was lost"
    assert watch.stage.owned() == [held.run_id]
    assert await check.check() == 0


async def test_a_run_that_is_just_being_claimed_is_not(watch: Watch) -> None:
    run, held = watch.stage.root(), set[str]()
    watch.stage.claim(run)
    check = check_of(watch, held)
    await check.check()
    held.add(run.member)  # entered before its claim is sent

    assert await check.check() == 0
    assert phase(watch, run) is Phase.CLAIMED
    held.clear()
    assert await check.check() == 0, "the count starts anew"


async def test_a_run_that_is_claimed_while_the_check_is_under_way_is_not(watch: Watch) -> None:
    first, run = watch.stage.root(), watch.stage.root()
    watch.stage.claim(first)
    watch.stage.claim(run)
    asked = 0

    def held() -> set[str]:
        nonlocal asked
        asked += 1
        return {run.member} if asked > 2 else set()

    process = watch.stage.process("p1")
    check = OwnerCheck(watch.store, watch.link, watch.waker, watch.settings, process, held)
    await check.check()

    assert await check.check() == 1
    assert (phase(watch, first), phase(watch, run)) == (Phase.QUEUED, Phase.CLAIMED)


async def test_a_run_that_has_left_meanwhile_is_no_stray(watch: Watch) -> None:
    run = watch.stage.root()
    attempt = watch.stage.claim(run)
    check = check_of(watch, set())
    await check.check()
    watch.stage.run(attempt.hand_back())
    before = watch.stage.dump()
    # As if the set had been read just before.
    watch.server.sadd(keys.owned(watch.stage.partition, watch.stage.process("p1")), run.member)

    assert await check.check() == 0
    assert watch.stage.dump() == before
    assert watch.messages() == []


async def test_runs_of_other_processes_are_not_looked_at(watch: Watch) -> None:
    run = watch.stage.root()
    watch.stage.claim(run, process="p2")
    check = check_of(watch, set())

    assert [await check.check() for _ in range(3)] == [0, 0, 0]
    assert phase(watch, run) is Phase.CLAIMED


async def test_it_goes_on_checking_after_a_failed_check(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    run = watch.stage.root()
    watch.stage.claim(run)
    watch.link.fail_at = {"take_over": 1}

    loop = asyncio.create_task(check_of(watch, set(), every_s=0.02).run())
    await until(lambda: phase(watch, run) is Phase.QUEUED)
    loop.cancel()
    await asyncio.wait([loop])

    assert watch.link.calls["take_over"] == 2
    assert "owner_check.failed error=StoreUnavailableError" in caplog.messages
    assert not [record for record in caplog.records if record.exc_info], "an outage is nothing to look into"
