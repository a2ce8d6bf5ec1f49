"""Pieces of a model's text: few messages, each of bounded length, and none while nobody listens."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from retinue.contract import StoreMemoryError, StoreUnavailableError, new_run_id
from retinue.store.call import RunKey
from retinue.worker.run.deltas import BEHIND_CHARS, MOST_CHARS, DeltaLine


class Channel:
    """What was published, once `gate` is open; fails as told."""

    def __init__(self, *faults: Exception) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.told: list[dict[str, Any]] = []
        self._faults = list(faults)

    async def run(self, call: Any) -> None:
        name, _channel, message = call.command
        assert name == "PUBLISH"
        await self.gate.wait()
        if self._faults:
            raise self._faults.pop(0)
        self.told.append(json.loads(message))

    def text(self) -> str:
        return "".join(each["text"] for each in self.told)


def line(store: Channel, *, is_heard: bool = True) -> tuple[DeltaLine, Any]:
    run_id = new_run_id(7)
    held: Any = SimpleNamespace(
        key=RunKey("_", run_id), record=SimpleNamespace(root_id=run_id), is_heard=is_heard
    )
    return DeltaLine(store, held, 3), held  # pyright: ignore[reportArgumentType]


async def until(true: Any) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_pieces_that_come_together_leave_together_and_all_of_them_before_the_record() -> None:
    store = Channel()
    deltas, held = line(store)
    with deltas:
        for n in range(1_000):
            deltas.feed(f"{n} ")
        await until(lambda: store.told)
        deltas.feed("end")
        await deltas.flush()
    assert store.text() == "".join(f"{n} " for n in range(1_000)) + "end"
    assert len(store.told) == 2
    assert store.told[1] == {
        "e": "model.delta",
        "r": held.key.run_id,
        "iteration": 3,
        "offset": len(store.told[0]["text"]),
        "text": "end",
    }


async def test_nothing_is_sent_and_no_task_begun_while_nobody_listens() -> None:
    store = Channel()
    deltas, _ = line(store, is_heard=False)
    before = len(asyncio.all_tasks())
    with deltas:
        for _ in range(100):
            deltas.feed("text")
        assert len(asyncio.all_tasks()) == before
        await deltas.flush()
    assert store.told == []


async def test_who_begins_to_listen_gets_the_text_from_its_beginning() -> None:
    store = Channel()
    deltas, held = line(store, is_heard=False)
    with deltas:
        deltas.feed("Once ")
        held.is_heard = True
        deltas.feed("upon ")
        await until(lambda: store.told)
        await deltas.flush()
    assert (store.text(), store.told[0]["offset"]) == ("Once upon ", 0)


async def test_a_long_text_goes_in_parts_and_the_oldest_of_far_too_much_is_left_out() -> None:
    store = Channel()
    deltas, _ = line(store)
    text = "".join(chr(97 + n % 26) for n in range(2 * BEHIND_CHARS))
    with deltas:
        deltas.feed(text)
        await deltas.flush()
    assert max(len(each["text"]) for each in store.told) <= MOST_CHARS
    assert store.told[0]["offset"] == BEHIND_CHARS
    assert store.text() == text[BEHIND_CHARS:]


async def test_a_store_that_is_away_or_hangs_costs_the_run_a_second_at_most() -> None:
    away = Channel(StoreUnavailableError("away"), StoreMemoryError("full"))
    deltas, _ = line(away)
    with deltas:
        deltas.feed("x" * 3 * MOST_CHARS)
        await deltas.flush()
    assert [each["offset"] for each in away.told] == [2 * MOST_CHARS]
    hung = Channel()
    hung.gate.clear()
    deltas, _ = line(hung)
    with deltas:
        deltas.feed("text")
        async with asyncio.timeout(30):
            await deltas.flush()
    assert hung.told == []


async def test_the_end_of_the_request_ends_what_is_sent_of_it() -> None:
    store = Channel()
    store.gate.clear()
    deltas, _ = line(store)
    before = len(asyncio.all_tasks())
    with deltas:
        deltas.feed("text")
        await asyncio.sleep(0)
    await until(lambda: len(asyncio.all_tasks()) == before)
    assert store.told == []
