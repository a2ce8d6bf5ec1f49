"""Event streams cut at every possible byte."""

import pytest

from retinue.worker.models.sse import SseDecoder


def decode(*chunks: bytes) -> list[str]:
    decoder = SseDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.feed(b"", final=True)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_the_same_wherever_the_bytes_are_cut(end: bytes):
    stream = "event: x\ndata: ä😀\n\n: a comment\n\ndata:two\ndata: lines\n\nid: 4\n\n".encode().replace(
        b"\n", end
    )
    for cut in range(len(stream)):
        assert decode(stream[:cut], stream[cut:]) == ["ä😀", "two\nlines"]


def test_one_byte_at_a_time_gives_the_same_events():
    assert decode(*(bytes([byte]) for byte in b'data: {"a":1}\r\n\r\ndata: [DONE]\r\n\r\n')) == [
        '{"a":1}',
        "[DONE]",
    ]


def test_an_event_without_its_blank_line_counts_at_the_end_only():
    decoder = SseDecoder()
    assert decoder.feed(b"data: last\n") == []
    assert decoder.feed(b"", final=True) == ["last"]


def test_line_separators_of_unicode_do_not_end_a_line():
    assert decode("data: a\u2028b\x0bc\n\n".encode()) == ["a\u2028b\x0bc"]


def test_a_line_of_thousands_of_chunks_is_looked_through_once():
    decoder = SseDecoder()
    assert all(decoder.feed(b"x" * 4_096) == [] for _ in range(3))
    assert decoder.feed(b"\r") == []
    assert decoder.feed(b"\ndata: a") == []
    assert decoder.feed(b"b") == []
    assert decoder.feed(b"\r\n\r\n") == ["ab"]
