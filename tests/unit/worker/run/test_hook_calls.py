"""Calling hooks: one at a time for a run, each for so long, and none in the way of another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from retinue.agents.hooks import AnyHook, on_stop
from retinue.store.call import RunKey
from retinue.store.operations.outbox import Letter
from retinue.store.record import Record
from retinue.worker.run.hook_calls import HookCalls


def letter(run_id: str = "sa-p01-a", **fields: str) -> Letter:
    """A run that has succeeded."""
    record = {"st": "SUCCEEDED", "sess": "s", "root": run_id, "cr": "1000", "fi": "3000", "ag": "support"}
    request = '{"request":{"goal":"secret","metadata":{"ticket":7}}}'
    return Letter(RunKey("_", run_id), Record({**record, **fields}), request)


async def tell(hooks: Sequence[AnyHook], *letters: Letter, timeout_s: float = 5.0) -> None:
    calls = HookCalls(hooks, timeout_s)
    await asyncio.gather(*map(calls.tell_of_end, letters))


async def test_a_hook_is_told_how_the_run_ended() -> None:
    seen: list[Any] = []
    await tell([on_stop(seen.append)], letter(sa="2000", tin="5"))
    (stopped,) = seen
    assert (stopped.run_id, stopped.agent, stopped.state) == ("sa-p01-a", "support", "SUCCEEDED")
    assert stopped.metadata == {"ticket": 7}
    assert stopped.usage.input_tokens == 5
    assert (stopped.ended_at - stopped.created_at).total_seconds() == 2
    assert "secret" not in repr(stopped)


async def test_an_object_that_reports_nothing_has_no_usage() -> None:
    seen: list[Any] = []
    await tell([on_stop(seen.append)], letter(cs="o"))
    assert (seen[0].usage, seen[0].tree_usage) == (None, None)


async def test_of_one_run_only_one_hook_is_at_work_and_of_two_runs_two() -> None:
    at_work: list[str] = []
    most: dict[str, int] = {}
    both = asyncio.Event()

    async def watch(stopped: Any) -> None:
        at_work.append(stopped.run_id)
        most[stopped.run_id] = max(most.get(stopped.run_id, 0), at_work.count(stopped.run_id))
        if len(set(at_work)) == 2:
            both.set()
        await both.wait()
        at_work.remove(stopped.run_id)

    await tell([on_stop(watch), on_stop(watch)], letter("sa-p01-a"), letter("sa-p01-a"), letter("sa-p01-b"))
    assert most == {"sa-p01-a": 1, "sa-p01-b": 1}


@pytest.mark.parametrize("fault", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_hook_raises_is_logged_without_its_text_and_the_next_is_called(
    fault: type[BaseException], is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise fault("secret")

    async def fail_later(_: object) -> None:
        raise fault("secret")

    seen: list[object] = []
    with caplog.at_level(logging.ERROR):
        await tell([on_stop(fail_later if is_async else fail), on_stop(seen.append)], letter())
    assert len(seen) == 1
    assert "hook.failed point=on_stop" in caplog.text
    assert "secret" not in caplog.text


async def test_one_that_hangs_is_cancelled_after_its_time(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def hang(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    await tell([on_stop(hang), on_stop(lambda _: ended.append("next"))], letter(), timeout_s=0.05)
    assert ended == ["cancelled", "next"]
    assert "hook.timed_out point=on_stop" in caplog.text


async def test_while_nobody_listens_nothing_is_made_ready() -> None:
    calls = HookCalls((), 1.0)
    assert not calls.are_told_of_ends
    await calls.tell_of_end(letter(cr="no number"))
