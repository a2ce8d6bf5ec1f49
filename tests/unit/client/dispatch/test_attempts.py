"""When a call is tried again, and how it is told that it failed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retinue.client import ErrorCode, SubagentLifecycleError
from retinue.client.dispatch.async_connections import AsyncClientStore
from retinue.client.dispatch.attempts import Attempts
from retinue.contract import StoreError, StoreMemoryError, StoreReplyError, StoreUnavailableError
from retinue.store.call import CommandCall

REFUSED = StoreUnavailableError("refused")
CUT = StoreUnavailableError("cut", sent=True)
SILENT = StoreUnavailableError("no reply in time", sent=True, timed_out=True)


def fault_of(attempts: Attempts, error: StoreError) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        attempts.next_delay(error)
    return caught.value


def test_what_never_left_is_reported_at_once() -> None:
    fault = fault_of(Attempts(10, unknown=lambda: pytest.fail("nothing was launched")), REFUSED)
    assert fault.code == ErrorCode.STORE_UNAVAILABLE
    assert fault.__cause__ is REFUSED


def test_a_lost_reply_is_asked_for_again_with_growing_pauses_until_the_limit() -> None:
    attempts = Attempts(10)
    delays = [attempts.next_delay(CUT) for _ in range(6)]
    assert delays == sorted(delays)
    assert 0 < delays[0] < delays[-1] <= 0.25
    assert fault_of(Attempts(0), CUT).code == ErrorCode.STORE_UNAVAILABLE


def test_once_sent_it_goes_on_although_the_server_refuses() -> None:
    attempts = Attempts(10)
    attempts.next_delay(CUT)
    assert attempts.next_delay(REFUSED) > 0


def test_a_silent_server_is_not_asked_twice() -> None:
    fault = fault_of(Attempts(10), SILENT)
    assert fault.code == ErrorCode.STORE_UNAVAILABLE


@pytest.mark.parametrize("error", [SILENT, CUT])
def test_a_launch_that_was_sent_is_unknown_with_its_handle(error: StoreError) -> None:
    handle = object()
    fault = fault_of(Attempts(0, unknown=lambda: handle), error)  # type: ignore[arg-type, return-value]
    assert (fault.code, fault.handle) == (ErrorCode.LAUNCH_UNKNOWN, handle)


def test_a_full_store_and_an_error_reply_say_what_they_are() -> None:
    assert "memory" in str(fault_of(Attempts(10), StoreMemoryError("OOM")))
    fault = fault_of(Attempts(10), StoreReplyError("NOPERM"))
    assert (fault.code, "NOPERM" in str(fault)) == (ErrorCode.STORE_UNAVAILABLE, True)


def test_a_store_that_refuses_the_url_is_told_by_what_to_correct_in_it() -> None:
    refused = StoreUnavailableError("redis://h refuses the credentials: WRONGPASS", mend="correct the URL")
    fault = fault_of(Attempts(10), refused)
    assert (fault.code, fault.mend) == (ErrorCode.STORE_UNAVAILABLE, "correct the URL")
    assert fault.message == "the store cannot be used: redis://h refuses the credentials: WRONGPASS"
    assert fault_of(Attempts(10), REFUSED).mend == "see that the server runs, then try again"


def test_a_repeat_may_take_what_is_left_and_the_first_attempt_what_the_link_grants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_000.0]
    monkeypatch.setattr("retinue.client.dispatch.attempts.time.monotonic", lambda: now[0])
    attempts = Attempts(3)
    assert attempts.left_s is None
    now[0] += 1
    attempts.next_delay(CUT)
    assert attempts.left_s == 2
    now[0] += 5
    assert attempts.left_s == 0


async def test_a_repeat_that_hangs_ends_with_the_limit_and_says_why_it_was_one() -> None:
    class Hanging:
        """Loses the first reply, and is busy for ever from then on."""

        calls = 0

        async def execute(self, *_args: object) -> object:
            self.calls += 1
            if self.calls == 1:
                raise CUT
            return await asyncio.Event().wait()

    handle: Any = object()
    link: Any = Hanging()
    store = AsyncClientStore(link, limit_s=0.5)
    async with asyncio.timeout(30):
        with pytest.raises(SubagentLifecycleError, match="unknown: cut") as caught:
            await store.run(CommandCall(("PING",), str), unknown=lambda: handle)
    assert (caught.value.code, caught.value.handle) == (ErrorCode.LAUNCH_UNKNOWN, handle)
    assert link.calls == 2
