"""An attempt whose own steps fail: the run ends, for one that is only dropped would come back for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from retinue.agents.effective.effective import EffectiveSpec
from retinue.client.launching.ticket import Ticket
from retinue.contract import (
    ErrorClassification,
    Role,
    StoreReplyError,
    SubagentLaunchRequest,
    SubagentState,
    new_run_id,
)
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Claimed, Ended, Fence
from retinue.worker.pool.reports import Failed
from retinue.worker.process.roll import Roll
from retinue.worker.run.attempt import Attempt
from retinue.worker.run.hook_calls import HookCalls

KEY = RunKey("acme", new_run_id(7))
TICKET = Ticket(SubagentLaunchRequest.parse(goal="the secret goal"), Role.LEAF).to_json()
SPEC = EffectiveSpec(agent="support", max_iterations=5).model_dump_json()


class Store:
    """Hands out one run; refuses what it is told to, and keeps how the run ended."""

    def __init__(self, *, request: str = TICKET, spec: str = SPEC, grants: tuple[str, ...] = ()) -> None:
        self.refused: set[str] = set()
        self.ended: list[tuple[Any, ...]] = []
        record = Record({"ag": "support", "mi": "5", "th": KEY.run_id})
        self._claimed = Claimed(Fence(1, "token"), 0, record, request, spec, [], {}, list(grants))

    async def run(self, call: Any) -> Any:
        if call.script.name in self.refused:
            raise StoreReplyError(f"{call.script.name} is refused")
        if call.script.name == "claim":
            return self._claimed
        assert call.script.name == "finish"
        self.ended.append(call.argv)
        return Ended(SubagentState(call.argv[7]), None)


@contextmanager
def watching(_entry: object) -> Generator[None]:
    yield


def attempt(store: Store) -> Attempt:
    """In a process that drains: a run that it can read is handed back at once."""
    draining = asyncio.Event()
    draining.set()

    def provider(_spec: object) -> object:
        return SimpleNamespace(api="chat_completions")

    services: Any = SimpleNamespace(
        process="p1",
        alone=False,
        capable="\n",
        store=store,
        settings=SimpleNamespace(workspace_root=None, cancel_grace_seconds=1.0),
        provider=provider,
        draining=draining,
        slots=None,
        hooks=HookCalls((), 1.0),
        outbox=SimpleNamespace(ended=lambda run, tells: None),
    )
    hints: Any = SimpleNamespace(watching=watching)
    return Attempt(services, Roll(), hints, KEY)


async def test_a_run_whose_outcome_cannot_be_written_fails_with_the_kind_of_the_fault() -> None:
    store = Store()
    store.refused.add("hand_back")

    assert await attempt(store).run() == Failed(ErrorClassification.INTERNAL_ERROR)

    [argv] = store.ended
    assert argv[7:9] == ("FAILED", "INTERNAL_ERROR")
    assert "StoreReplyError" in argv[9]


async def test_a_run_that_cannot_even_be_ended_is_let_go_of() -> None:
    store, roll = Store(), Roll()
    store.refused |= {"hand_back", "finish"}

    with pytest.raises(StoreReplyError):
        await attempt(store).run()
    assert roll.members() == set()


@pytest.mark.parametrize(
    "stored",
    [
        {"request": "{}"},
        {"request": "no JSON"},
        {"spec": '{"agent": "support", "max_iterations": 5, "new": "secret"}'},
        {"spec": "[]"},
        {"grants": ('{"new": "secret"}',)},
    ],
    ids=["request", "json", "spec", "list", "grant"],
)
async def test_a_run_that_another_version_has_written_fails_and_quotes_nothing_of_it(
    stored: dict[str, Any],
) -> None:
    store = Store(**stored)

    assert await attempt(store).run() == Failed(ErrorClassification.INTERNAL_ERROR)

    [argv] = store.ended
    assert argv[7:9] == ("FAILED", "INTERNAL_ERROR")
    assert "another version" in argv[9]
    assert "secret" not in str(argv)
