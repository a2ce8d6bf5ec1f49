"""Each write of the facade whose request or reply is lost: it happens once, and is answered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker

from retinue.contract import EventType, RequestKind
from retinue.store.operations.asking import Asked
from retinue.store.operations.budgets import Reservation
from retinue.store.scripts import script
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

REFUND = Asked(RequestKind.APPROVAL, "refund", "call_1", {"order": 7}, "a" * 64)
WHERE = Asked(RequestKind.INPUT, "where", "call_2", {}, "b" * 64)


@pytest.fixture
def fresh_store_url(proxy: FaultProxy) -> str:
    return proxy.url


@pytest.fixture
def worker(valkey_server: PrivateServer) -> Iterator[StoreWorker]:
    made = StoreWorker(valkey_server.url)
    made.advertise("support")
    yield made
    made.close()


class Stage:
    """A facade, and what its writes need."""

    def __init__(self, lifecycle: Any, worker: StoreWorker) -> None:
        self.lifecycle = lifecycle
        self.worker = worker

    def launched(self) -> Any:
        return self.lifecycle.launch(agent="support", goal="x")

    def ended(self) -> Any:
        handle = self.launched()
        self.worker.complete(handle)
        return handle

    def paused(self) -> Any:
        handle = self.lifecycle.launch(agent="support", goal="x", budget={"usd": 1})
        self.worker.pause(handle, Reservation(1, 1, 2_000_000, 0))
        return handle

    def asking(self, asked: Asked) -> tuple[Any, str]:
        handle = self.launched()
        self.worker.ask(handle, asked)
        return handle, self.lifecycle.pending(handle)[0].request_id


Write = tuple[str, Callable[[Stage], Any], Callable[[Stage, Any], Any], EventType, int]
"""The script, what comes before, the write, the event that tells of it, and how many there are then."""

WRITES: dict[str, Write] = {
    "launch": (
        "launch",
        lambda stage: None,
        lambda stage, _: (stage.lifecycle.launch(agent="support", goal="x"),),
        EventType.RUN_CREATED,
        1,
    ),
    "launch_many": (
        "launch",
        lambda stage: None,
        lambda stage, _: stage.lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 3),
        EventType.RUN_CREATED,
        1,
    ),
    "continue_run": (
        "launch",
        Stage.ended,
        lambda stage, first: (stage.lifecycle.continue_run(first, "two"),),
        EventType.RUN_CREATED,
        1,
    ),
    "steer": (
        "steer",
        Stage.launched,
        lambda stage, handle: (handle, stage.lifecycle.steer(handle, "text")),
        EventType.STEER_QUEUED,
        1,
    ),
    "cancel": (
        "cancel",
        Stage.launched,
        lambda stage, handle: (handle, stage.lifecycle.cancel(handle).accepted),
        EventType.CANCEL_REQUESTED,
        1,
    ),
    "sweep": (
        "sweep",
        Stage.launched,
        lambda stage, handle: (handle, stage.lifecycle.cancel(handle).accepted),
        EventType.RUN_FINISHED,
        1,
    ),
    "raise_budget": (
        "raise_budget",
        Stage.paused,
        lambda stage, handle: (handle, stage.lifecycle.raise_budget(handle, usd=5).accepted),
        EventType.RUN_RESUMED,
        1,
    ),
    "approve": (
        "decide",
        lambda stage: stage.asking(REFUND),
        lambda stage, asked: (asked[0], stage.lifecycle.approve(*asked).accepted),
        EventType.APPROVAL_DECIDED,
        1,
    ),
    "deny": (
        "decide",
        lambda stage: stage.asking(REFUND),
        lambda stage, asked: (asked[0], stage.lifecycle.deny(*asked).accepted),
        EventType.APPROVAL_DECIDED,
        1,
    ),
    "answer": (
        "answer",
        lambda stage: stage.asking(WHERE),
        lambda stage, asked: (asked[0], stage.lifecycle.answer(*asked, "here").accepted),
        EventType.INPUT_ANSWERED,
        1,
    ),
}


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_is_not_answered_happens_once(
    facades: Facades, worker: StoreWorker, proxy: FaultProxy, name: str, loss: Loss
) -> None:
    operation, before, write, event, count = WRITES[name]
    stage = Stage(facades(), worker)
    made = before(stage)
    worker.link.execute("SCRIPT", "LOAD", script(operation).body)

    proxy.lose(loss, to=script(operation).sha.encode(), count=2)
    handle, *answers = write(stage, made)
    proxy.lose(loss, count=0)

    handles = [handle, *answers] if name == "launch_many" else [handle]
    if name != "launch_many":
        assert all(answers), answers
    for one in handles:
        often = Counter(each.type for each in stage.lifecycle.events(one) if each.run_id == one.subagent_id)
        assert often[event] == count
    assert len(stage.lifecycle.list()) == len(handles) + (name == "continue_run")
