"""What a server remembers of its requests."""

import asyncio
import threading
import time

import pytest

from retinue.testing.record import RecordedRequest, RequestRecord
from retinue.testing.request import Api, read_request


def begin(record: RequestRecord, agent: str) -> RecordedRequest:
    request = read_request(Api.RESPONSES, {"model": "m", "input": "text"}, {"authorization": "Bearer k"})
    recorded = RecordedRequest(agent=agent, api="responses", request=request)
    record.begin(recorded)
    return recorded


def test_peaks_are_kept_for_each_agent_and_for_all() -> None:
    record = RequestRecord()
    first, second = begin(record, "a"), begin(record, "b")
    record.end(first)
    record.end(begin(record, "a"))
    assert (record.peak(), record.peak("a"), record.peak("b")) == (2, 1, 1)
    assert (record.in_flight(), record.in_flight("a"), record.in_flight("b")) == (1, 0, 1)
    record.end(second)
    assert [r.number for r in record.all()] == [0, 1, 2]
    assert len(record.all("a")) == 2


def test_forgetting_keeps_what_is_in_flight() -> None:
    record = RequestRecord()
    record.end(begin(record, "a"))
    flying = begin(record, "b")
    record.forget()
    assert record.all() == (flying,)
    assert (record.peak(), record.peak("a"), record.peak("b")) == (1, 0, 1)
    assert begin(record, "c").number == 2


def test_bodies_are_shown_on_demand_and_credentials_never() -> None:
    record = RequestRecord()
    shown = begin(record, "a").to_dict(with_body=True)
    assert shown["body"] == {"model": "m", "input": "text"}
    assert "Bearer" not in str(shown)
    assert "body" not in record.all()[0].to_dict()


def test_a_record_without_bodies_counts_only() -> None:
    record = RequestRecord(keep_bodies=False)
    assert begin(record, "a").request is None


def test_a_blocked_thread_is_woken_by_a_request() -> None:
    record = RequestRecord()
    threading.Timer(0.05, begin, (record, "a")).start()
    started = time.monotonic()
    assert record.wait(lambda: len(record.all()) == 1, 90)
    assert time.monotonic() - started < 45, "woken by the request, not by the deadline"
    assert not record.wait(lambda: len(record.all()) == 2, 0.01)


async def test_a_waiting_task_is_woken_by_a_request_on_another_thread() -> None:
    record = RequestRecord()
    waiting = asyncio.create_task(record.wait_async(lambda: len(record.all()) == 1, 5))
    await asyncio.to_thread(begin, record, "a")
    assert await waiting
    assert not await record.wait_async(lambda: len(record.all()) == 2, 0.01)


async def test_an_error_of_the_predicate_reaches_the_waiter() -> None:
    with pytest.raises(ZeroDivisionError):
        await RequestRecord().wait_async(lambda: 1 // 0 == 1, 1)
