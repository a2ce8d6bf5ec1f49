"""Pages of runs: nothing is lost or told twice, whatever is added or expires between two pages."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from retinue.contract import (
    Role,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
    SubagentStatus,
)
from retinue.http.run_pages import SCANNED_MAX, Cursor, Entry, Filter, Page, read_page

DIGITS = "abcdefghijklmnopqrstuvwxyz234567"


def run_id(number: int) -> str:
    """A run id for each number."""
    digits = DIGITS[number // 1024 % 32] + DIGITS[number // 32 % 32] + DIGITS[number % 32]
    return f"sa-p00-{'a' * 23}{digits}"


def status(number: int) -> SubagentStatus:
    """Of a run; every tenth has failed, the others have succeeded."""
    handle = SubagentHandle(
        subagent_id=run_id(number),
        parent_session_id="s",
        correlation_id=None,
        created_at=float(number),
        provider=None,
        model=None,
        role=Role.LEAF,
        depth=0,
        capability="v1.a.b",
    )
    state = SubagentState.FAILED if number % 10 == 0 else SubagentState.SUCCEEDED
    return SubagentStatus(handle=handle, state=state, agent="clerk")


class Listed:
    """A list that can grow at its front, and whose runs can expire."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = list(numbers)
        self.expired: set[int] = set()
        self.reads = 0

    async def read(self, offset: int, count: int) -> Sequence[Entry]:
        self.reads += 1
        part = self.numbers[offset : offset + count]
        return [(run_id(n), None if n in self.expired else status(n)) for n in part]


def ids(page: Page) -> list[str]:
    """Which runs stand in a page."""
    return [run.handle.subagent_id for run in page.runs if run.handle]


async def test_the_pages_of_a_list_are_the_list() -> None:
    listed = Listed(range(25))
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await read_page(listed, Filter(), limit=10, cursor=Cursor.read(cursor))
        found += ids(page)
        cursor = page.next_cursor
        if cursor is None:
            break

    assert found == [run_id(number) for number in range(25)]


async def test_the_last_page_says_so_even_if_it_is_full() -> None:
    page = await read_page(Listed(range(10)), Filter(), limit=10, cursor=Cursor())

    assert (len(page.runs), page.next_cursor) == (10, None)


@pytest.mark.parametrize("added", [1, 99, 250])
async def test_what_is_added_in_front_is_not_told_twice(added: int) -> None:
    listed = Listed(range(1_000, 1_020))
    first = await read_page(listed, Filter(), limit=10, cursor=Cursor())
    listed.numbers[:0] = range(added)

    second = await read_page(listed, Filter(), limit=10, cursor=Cursor.read(first.next_cursor))

    assert ids(second) == [run_id(number) for number in range(1_010, 1_020)]


async def test_where_the_place_has_expired_the_list_goes_on_by_count() -> None:
    listed = Listed(range(20))
    first = await read_page(listed, Filter(), limit=10, cursor=Cursor())
    listed.numbers.remove(9)

    second = await read_page(listed, Filter(), limit=10, cursor=Cursor.read(first.next_cursor))

    assert ids(second)[-1] == run_id(19)


async def test_expired_runs_are_left_out() -> None:
    listed = Listed(range(5))
    listed.expired = {1, 3}

    page = await read_page(listed, Filter(), limit=10, cursor=Cursor())

    assert ids(page) == [run_id(number) for number in (0, 2, 4)]


async def test_filters_leave_out_what_is_not_wanted() -> None:
    page = await read_page(
        Listed(range(100)), Filter(SubagentState.FAILED, "clerk"), limit=50, cursor=Cursor()
    )
    none = await read_page(Listed(range(100)), Filter(agent="boss"), limit=50, cursor=Cursor())

    assert ids(page) == [run_id(number) for number in range(0, 100, 10)]
    assert (none.runs, none.next_cursor) == ([], None)


async def test_a_filter_that_nothing_passes_reads_a_bounded_part_of_a_long_list() -> None:
    listed = Listed(range(5_000))

    page = await read_page(listed, Filter(agent="boss"), limit=50, cursor=Cursor())

    assert (page.runs, listed.reads) == ([], SCANNED_MAX // 100)
    assert Cursor.read(page.next_cursor).offset == SCANNED_MAX


@pytest.mark.parametrize(
    "text", ["", "nonsense", "ä", "e30", "WzEsIDJd", Cursor(-1, run_id(1)).written(), "A" * 9_999]
)
def test_a_cursor_that_was_not_given_is_refused(text: str) -> None:
    with pytest.raises(SubagentLifecycleError) as refused:
        Cursor.read(text)
    assert refused.value.field == "cursor"
