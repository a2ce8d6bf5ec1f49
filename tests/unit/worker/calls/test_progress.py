"""A tool's progress messages: however fast they come, one is on its way at a time."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.contract import StoreMemoryError, StoreUnavailableError, new_run_id
from retinue.store.call import RunKey
from retinue.store.replies import Fence
from retinue.worker.calls.progress import ProgressLine


class SlowStore:
    """Takes a note once `gate` is open; fails those that it is told to."""

    def __init__(self, *faults: Exception) -> None:
        self.gate = asyncio.Event()
        self.messages: list[str] = []
        self.under_way = self.most = 0
        self._faults = list(faults)

    async def run(self, call: Any) -> None:
        self.messages.append(json.loads("{" + call.argv[7][1:] + "}")["message"])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.gate.wait()
        self.under_way -= 1
        if self._faults:
            raise self._faults.pop(0)


def line(store: SlowStore, **run: Any) -> ProgressLine:
    held: Any = SimpleNamespace(
        key=RunKey("_", new_run_id(7)), fence=Fence(1, "t"), **{"has_left": False, **run}
    )
    return ProgressLine(store, held, 0)  # pyright: ignore[reportArgumentType]


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_of_the_messages_that_come_while_one_is_sent_only_the_latest_follows() -> None:
    store = SlowStore()
    progress = line(store)
    for number in range(1000):
        progress.report(str(number))
        if number == 0:
            await until(lambda: store.messages)
    store.gate.set()
    await until(lambda: len(store.messages) == 2)
    assert store.messages == ["0", "999"]
    assert store.most == 1
    progress.report("later")
    await until(lambda: len(store.messages) == 3)
    assert store.messages[-1] == "later"


async def test_threads_may_report_at_once() -> None:
    store = SlowStore()
    store.gate.set()
    progress = line(store)
    threads = [threading.Thread(target=progress.report, args=(str(number),)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    progress.report("last")
    await until(lambda: store.messages and store.messages[-1] == "last")
    assert store.most == 1


@pytest.mark.parametrize("fault", [StoreUnavailableError("away"), StoreMemoryError("full")])
async def test_a_message_that_the_store_does_not_take_is_dropped(fault: Exception) -> None:
    store = SlowStore(fault)
    store.gate.set()
    progress = line(store)
    progress.report("lost")
    await until(lambda: store.messages == ["lost"])
    progress.report("next")
    await until(lambda: store.messages == ["lost", "next"])


async def test_a_tool_that_was_left_behind_reports_nothing() -> None:
    store = SlowStore()
    line(store, has_left=True).report("late")
    await asyncio.sleep(0.01)
    assert store.messages == []
