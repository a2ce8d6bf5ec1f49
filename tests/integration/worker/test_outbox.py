"""What a worker process tells of ended runs when replies are lost, or the broker takes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import pytest
from tests.integration.store.stage import CAPABLE, Stage, SyncRunner

from retinue.broker.keyring_store import AsyncKeyringStore
from retinue.broker.notices import Notice
from retinue.client.launching.ticket import Ticket
from retinue.contract import Role, StoreUnavailableError, SubagentHandle, SubagentLaunchRequest
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.connections.link import AsyncLink
from retinue.store.operations.outbox import Told
from retinue.store.store import AsyncStore
from retinue.testing.servers import PrivateServer
from retinue.worker.process import outbox as module
from retinue.worker.process.outbox import Outbox
from retinue.worker.run.hook_calls import HookCalls

T = TypeVar("T")


class LossyStore(AsyncStore):
    """Loses the first reply to each script that is named."""

    def __init__(self, link: AsyncLink, *lost: str) -> None:
        super().__init__(link)
        self._lost = set(lost)

    async def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        reply = await super().run(call)
        if isinstance(call, ScriptCall) and call.script.name in self._lost:
            self._lost.remove(call.script.name)
            raise StoreUnavailableError("the reply was lost")
        return reply


class DeafStore(LossyStore):
    """Loses the first call of each script that is named."""

    async def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        if isinstance(call, ScriptCall) and call.script.name in self._lost:
            self._lost.remove(call.script.name)
            raise StoreUnavailableError("the call was lost")
        return await super().run(call)


class Sent:
    """A notifier that takes what it is given, once it has refused so often."""

    def __init__(self, refuses: int = 0) -> None:
        self.notices: list[Notice] = []
        self._refuses = refuses

    async def send(self, notices: Sequence[Notice]) -> list[Notice]:
        if self._refuses:
            self._refuses -= 1
            return []
        self.notices.extend(notices)
        return list(notices)


@pytest.fixture
def stage(store_server: PrivateServer) -> Any:
    """A tenant of its own, audited by the store's tests."""
    runner = SyncRunner(store_server.url)
    yield Stage(runner, store_server.client(decode_responses=True))
    runner.close()


@pytest.fixture
async def link(store_server: PrivateServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncLink]:
    """A link; what a process has taken, the next may take at once."""
    monkeypatch.setattr(module, "_NOTICE_HELD_MS", 0)
    link = AsyncLink(store_server.url)
    yield link
    await link.close()


def ended(stage: Stage) -> RunKey:
    """A run that has ended, and names a task."""
    request = SubagentLaunchRequest.parse(goal="g", on_done={"task": "shop.done"})
    run = stage.root(tells="d", request_json=Ticket(request, Role.LEAF).to_json())
    stage.end(run)
    return run


async def look(store: AsyncStore, link: AsyncLink, sent: Sent) -> None:
    """What the elected reaper does; a store that could not be asked is asked at the next tick."""
    box = Outbox(store, link, AsyncKeyringStore(store), sent, HookCalls((), 1.0), CAPABLE)
    try:
        await box.look_for_notices()
    except StoreUnavailableError:
        return


def is_left(stage: Stage, run: RunKey) -> bool:
    letters = stage.server.exists(keys.letter(stage.tenant, run.run_id))
    index = stage.server.zscore(keys.outbox(stage.partition, Told.TASK.value), run.member)
    assert bool(letters) == (index is not None)
    return bool(letters)


async def test_a_notice_is_sent_once_and_then_nothing_is_left(stage: Stage, link: AsyncLink) -> None:
    run, sent = ended(stage), Sent()
    for _ in range(2):
        await look(AsyncStore(link), link, sent)
    (notice,) = sent.notices
    assert (notice.task, notice.queue, notice.task_id) == ("shop.done", None, f"{run.run_id}.done")
    assert SubagentHandle.from_dict(notice.handle).subagent_id == run.run_id
    assert not is_left(stage, run)


@pytest.mark.parametrize("lost", ["take_out", "told"])
async def test_a_lost_reply_loses_no_notice(lost: str, stage: Stage, link: AsyncLink) -> None:
    run, sent = ended(stage), Sent()
    store = LossyStore(link, lost)
    for _ in range(3):
        await look(store, link, sent)
    assert [notice.run_id for notice in sent.notices] == [run.run_id]
    assert not is_left(stage, run)


async def test_between_sending_and_noting_it_a_death_has_it_sent_twice_under_one_id(
    stage: Stage, link: AsyncLink
) -> None:
    run, sent = ended(stage), Sent()
    store = DeafStore(link, "told")
    await look(store, link, sent)
    assert is_left(stage, run)
    await look(store, link, sent)
    assert [notice.task_id for notice in sent.notices] == [f"{run.run_id}.done"] * 2
    assert not is_left(stage, run)


async def test_what_the_broker_does_not_take_stays(stage: Stage, link: AsyncLink) -> None:
    run, sent = ended(stage), Sent(refuses=2)
    for _ in range(2):
        await look(AsyncStore(link), link, sent)
        assert is_left(stage, run)
    await look(AsyncStore(link), link, sent)
    assert len(sent.notices) == 1
    assert not is_left(stage, run)
