"""Which part of a log, a list or a set of runs is read next."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retinue.client import Event, EventType, SubagentLifecycleError
from retinue.client.reading.reads import (
    EventCursor,
    PageCursor,
    checked_page,
    checked_place,
    chunks,
    places_of,
)
from retinue.store.call import RunKey
from retinue.store.operations.reading import ListedRoots

ROOT = "sa-p07-" + "a" * 26


def test_a_cursor_goes_on_behind_what_it_took() -> None:
    cursor = EventCursor("_", ROOT, 4)
    assert cursor.next_read().command[2:] == (4, 1003)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    events = [
        Event(sequence=n, type=EventType.RUN_RESUMED, run_id=ROOT, at=at, data={"wakeup": n}) for n in (5, 6)
    ]
    assert cursor.take(events) == events
    assert cursor.next_read().command[2:] == (6, 1005)
    cursor.take([])
    assert cursor.next_read().command[2:] == (6, 1005)


def _read(cursor: PageCursor) -> tuple[object, ...]:
    call = cursor.next_read()
    assert call is not None
    return call.argv[1:]


def test_a_page_is_filled_from_further_on_where_runs_have_expired() -> None:
    cursor = PageCursor("_", "s", 2, 3)
    assert _read(cursor) == (0, 50)
    assert cursor.take(ListedRoots(("a",), 50)) == []
    assert _read(cursor) == (50, 50)
    assert cursor.take(ListedRoots(("b", "c"), 100)) == [RunKey("_", "c")]
    assert cursor.take(ListedRoots(("d", "e", "f"), 150)) == [RunKey("_", "d"), RunKey("_", "e")]
    assert cursor.next_read() is None, "the page is full"


def test_a_page_ends_with_its_list_and_reads_bounded_parts() -> None:
    cursor = PageCursor("_", "s", 0, 1_000)
    assert _read(cursor) == (0, 500)
    assert cursor.take(ListedRoots(("a",), None)) == [RunKey("_", "a")]
    assert cursor.next_read() is None


@pytest.mark.parametrize("wrong", [-1, True, 1.0, "1", None])
def test_what_is_no_count_is_named(wrong: object) -> None:
    for call, field in (
        (lambda: checked_place(wrong), "after"),
        (lambda: checked_page(wrong, 1), "offset"),
        (lambda: checked_page(0, wrong), "limit"),
    ):
        with pytest.raises(SubagentLifecycleError) as caught:
            call()
        assert caught.value.field == field


def test_a_page_of_nothing_is_refused_for_it_would_be_the_whole_list() -> None:
    with pytest.raises(SubagentLifecycleError):
        checked_page(0, 0)
    assert checked_page(0, 1) == (0, 1)


def test_runs_are_read_a_hundred_at_a_time() -> None:
    assert [len(chunk) for chunk in chunks(range(250))] == [100, 100, 50]
    assert list(chunks([])) == []


def test_an_end_is_published_on_its_partitions_channel() -> None:
    assert places_of([RunKey("_", ROOT)]) == [("retinue:{p07}:wake", ROOT)]
