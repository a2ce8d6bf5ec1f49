"""A reader's place in a log, the part of it that streams share, and what goes over the wire."""

from __future__ import annotations

import asyncio
import json
from random import Random

import pytest
from tests.unit.http.sse import Reader

from retinue.contract import new_run_id
from retinue.http.streams.frames import KEEP_ALIVE, end_frame, gap_frame, passing_frame, retry_frame
from retinue.http.streams.log import Entry, Gap, LogCursor, Part
from retinue.http.streams.passing import News
from retinue.http.streams.subtree import Subtree
from retinue.http.streams.watched import KEPT_BYTES, WatchedLog

RUN = new_run_id(7)


def raw(number: int, kind: str = "steer.queued", **members: object) -> bytes:
    entry = {"e": kind, "r": RUN, "t": 1_798_761_600_000 + number, "steer": f"s{number}", **members}
    return json.dumps(entry).encode()


class List:
    """Answers as the store's list does."""

    def __init__(self, *entries: bytes) -> None:
        self.entries = list(entries)

    def read(self, cursor: LogCursor, most: int = 100) -> Part:
        name, _key, first, last = cursor.next_read(most)
        assert name == "LRANGE"
        assert isinstance(first, int)
        assert isinstance(last, int)
        return cursor.take(self.entries[first : last + 1])


def entries(*numbers: int) -> list[Entry]:
    return [Entry.of(number, raw(number)) for number in numbers]


def sequences(part: Part) -> list[int]:
    return [entry.sequence for entry in part.entries]


@pytest.mark.parametrize("seed", range(60))
def test_a_cursor_reads_each_entry_once_however_the_log_grows(seed: int) -> None:
    chance = Random(seed)
    before, after = chance.randint(0, 30), chance.randint(0, 30)
    growth = [chance.randint(0, 9) for _ in range(chance.randint(0, 10))]
    log = List(*map(raw, range(1, before + 1)))
    cursor = LogCursor("_", RUN, min(after, before))
    seen: list[int] = []
    for step in [0, *growth, 0, 0, 0, 0, 0]:
        length = len(log.entries)
        log.entries += map(raw, range(length + 1, length + 1 + step))
        part = log.read(cursor, 20)
        assert part.gap is None
        seen += sequences(part)
    assert seen == list(range(min(after, before) + 1, len(log.entries) + 1))


def test_a_log_that_ends_before_the_cursor_falls_short_and_the_cursor_falls_back() -> None:
    log, cursor = List(raw(1), raw(2)), LogCursor("_", RUN, 9)
    assert log.read(cursor).falls_short
    assert cursor.fall_back(2) == Gap(3, 9, 2)
    assert cursor.after == 2
    assert cursor.fall_back(2) is None
    assert cursor.fall_back(0) == Gap(3, None, 2)
    assert cursor.after == 0


def test_another_entry_in_the_place_of_the_last_one_is_a_gap_and_a_blanked_one_is_none() -> None:
    log, cursor = List(raw(1), raw(2, text="secret")), LogCursor("_", RUN)
    log.read(cursor)
    log.entries[1] = raw(2, text="")
    assert log.read(cursor).gap is None
    other = cursor.copy()
    log.entries[1:] = [raw(12), raw(13)]
    for reader in (cursor, other):
        part = log.read(reader)
        assert (part.gap, sequences(part)) == (Gap(2, 2, 2), [3])


def test_a_place_that_a_client_names_is_believed() -> None:
    part = List(raw(1), raw(2), raw(3)).read(LogCursor("_", RUN, 2))
    assert (part.gap, sequences(part)) == (None, [3])


def test_streams_share_the_newest_entries_and_read_older_ones_themselves() -> None:
    log, flag = WatchedLog(LogCursor("_", RUN, 5)), asyncio.Event()
    log.waiting.add(flag)
    log.cursor.after = 8
    log.take(Part(entries(6, 7, 8)))
    assert flag.is_set()
    found = {after: log.since(after, 0, 2) for after in (4, 5, 7, 8, 9)}
    assert found[4] is None
    assert [entry.sequence for entry in found[5] or ()] == [6, 7]
    assert [entry.sequence for entry in found[7] or ()] == [8]
    assert (found[8], found[9]) == ((), ())


def test_a_log_that_is_another_one_is_read_by_each_stream_itself() -> None:
    log, flag = WatchedLog(LogCursor("_", RUN, 3)), asyncio.Event()
    log.take(Part(entries(1, 2, 3)))
    log.waiting.add(flag)
    log.fall_back(3)
    assert not flag.is_set()
    log.fall_back(1)
    assert flag.is_set()
    assert log.since(0, 0, 9) is None
    assert log.since(1, log.generation, 9) == ()


def test_what_is_kept_of_a_log_is_bounded() -> None:
    log = WatchedLog(LogCursor("_", RUN))
    big = [Entry.of(n, raw(n, text="x" * 10_000)) for n in range(1, 101)]
    log.cursor.after = 100
    log.take(Part(big))
    kept = [after for after in range(100) if log.since(after, 0, 1) is not None]
    assert 0 < len(kept) <= KEPT_BYTES // 10_000 + 1
    assert log.since(99, 0, 1) is not None


def test_a_subtree_knows_its_runs_by_how_they_began() -> None:
    subtree, other = Subtree("0/1/"), new_run_id(7)

    def created(number: int, run_id: str, path: str) -> Entry:
        members = {"r": run_id, "agent": "a", "parent_id": None, "path": path}
        return Entry.of(number, raw(number, "run.created", **members))

    assert not subtree.admits(created(1, other, "0/"))
    assert not subtree.admits(created(2, other, "0/10/"))
    assert not subtree.admits(created(3, other, "0/2/1/"))
    assert subtree.admits(created(4, RUN, "0/1/5/"))
    assert subtree.admits(entries(5)[0])
    assert (subtree.admits_run(RUN), subtree.admits_run(other)) == (True, False)


@pytest.mark.parametrize(
    "text", ["", "a\nb", "\r\n\r\nevent: x\n\n", "\r", ": \n", "\x00\x0b\x0c\x85", "\u2028\ud800"]
)
@pytest.mark.parametrize("state", ["", "\n\nid: 9\n\n"])
def test_whatever_is_told_stays_within_its_event(text: str, state: str) -> None:
    reader = Reader()
    reader.feed(retry_frame(2_000) + KEEP_ALIVE)
    reader.feed(Entry.of(3, raw(3, "steer.missed", text=text)).frame)
    reader.feed(passing_frame("model.delta", {"text": text}) + end_frame(RUN, state))
    reader.feed(gap_frame(Gap(4, None, 3)))
    missed, delta, end, gap = reader.events
    assert (missed.kind, missed.id, missed.data["data"]["text"]) == ("steer.missed", 3, text)
    assert (delta.id, delta.data["text"]) == (None, text)
    assert (end.id, end.data["state"]) == (None, state)
    assert (gap.id, gap.data) == (3, {"from": 4, "to": None})
    assert (reader.retry_ms, reader.comments) == (2_000, 1)


@pytest.mark.parametrize(
    "message",
    [b"", b"\xff", b"null", b"[]", b"{}", b'{"e":"model.delta"}', b'{"e":"run.finished","r":"x","t":1}',
     b'{"e":"tool.progress","r":"x","t":1e99,"index":0,"message":""}',
     b'{"e":"model.delta","r":"x","iteration":"one","offset":0,"text":""}', b"[" * 100_000],
)  # fmt: skip
def test_a_message_that_is_no_news_is_none(message: bytes) -> None:
    assert News.of(message) is None
