"""Runs that others took over are stopped; those that this process itself has just let go of are not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from retinue.contract import new_run_id
from retinue.store.call import RunKey
from retinue.store.operations.reading import RunView
from retinue.store.record import Record
from retinue.store.replies import Claimed, Fence
from retinue.worker.process.fence_check import FenceCheck
from retinue.worker.process.roll import Roll
from retinue.worker.run.cut import Cut, until_done
from retinue.worker.run.held import HeldRun

KEY = RunKey("acme", new_run_id(7))
GIVEN_UP = {"ep": "1", "tok": ""}
TAKEN = {"ep": "2", "tok": "another"}
Meanwhile = Callable[[], Awaitable[None]]


async def nothing() -> None:
    return


class Store:
    """Says how the record stands, after what happens meanwhile."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields
        self.meanwhile: Meanwhile = nothing

    async def run(self, _call: object) -> RunView:
        await self.meanwhile()
        return RunView(Record(self.fields), under_cancel=False)


def held() -> HeldRun:
    record = Record({"ag": "support", "mi": "5", "th": KEY.run_id})
    return HeldRun.bare(KEY, Claimed(Fence(1, "token"), 0, record, "", None, [], {}, []))


async def look(run: HeldRun, store: Store) -> None:
    roll, as_store = Roll(), store
    with roll.entered(KEY) as entry:
        entry.held(run)
        check: Any = as_store
        await FenceCheck(check, roll).look()


@pytest.mark.parametrize("fields", [GIVEN_UP, TAKEN])
async def test_a_run_that_others_took_is_lost(fields: dict[str, str]) -> None:
    run = held()
    await look(run, Store(fields))
    assert run.is_lost


async def test_a_handoff_whose_reply_is_still_out_is_not_cut(caplog: pytest.LogCaptureFixture) -> None:
    """Cut, it would never send the wake-up that the reply owes."""
    caplog.set_level(logging.WARNING)
    run, reply = held(), asyncio.get_running_loop().create_future()

    async def hand_off() -> str:
        with run.releasing():
            return await reply

    work = asyncio.create_task(hand_off())
    nobody: Any = None
    waiting = asyncio.create_task(until_done(nobody, run, [work], grace_s=1.0))
    await asyncio.sleep(0)

    await look(run, Store(GIVEN_UP))
    reply.set_result("the wake-up")
    assert await waiting is None
    assert work.result() == "the wake-up"
    assert "run.lost" not in caplog.text


async def test_a_release_that_ends_while_the_record_is_read_is_seen() -> None:
    run, store = held(), Store(GIVEN_UP)
    releasing = run.releasing()
    releasing.__enter__()

    async def released() -> None:
        releasing.__exit__(None, None, None)

    store.meanwhile = released
    await look(run, store)
    assert not run.is_lost


async def test_a_release_that_was_refused_protects_the_run_no_longer() -> None:
    run = held()
    with run.releasing():
        pass
    work = asyncio.create_task(asyncio.Event().wait())
    nobody: Any = None
    waiting = asyncio.create_task(until_done(nobody, run, [work], grace_s=1.0))
    await asyncio.sleep(0)
    await look(run, Store(TAKEN))
    assert await waiting is Cut.LOST
    work.cancel()
