from __future__ import annotations

import asyncio

import pytest

from retinue.broker.settings import Settings
from retinue.http.service import Service


@pytest.fixture
def service() -> Service:
    return Service(Settings.read(store_url="redis://127.0.0.1:1/0"))


async def test_what_is_done_in_time_is_returned(service: Service) -> None:
    async def work() -> str:
        return "done"

    assert await service.unless_stopping(work()) == "done"


async def test_its_error_is_raised(service: Service) -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await service.unless_stopping(work())


async def test_a_process_that_is_told_to_end_waits_for_nothing(service: Service) -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(service.unless_stopping(work()))
    await asyncio.sleep(0)
    service.stopping.set()

    assert await waiting is None
    assert cancelled.is_set()


async def test_with_the_caller_the_work_ends_too(service: Service) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    waiting = asyncio.create_task(service.unless_stopping(work()))
    await begun.wait()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cancelled.is_set()
