from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from retinue.contract import EVENT_KEYS, Event, EventType, StoreReplyError, new_run_id

RUN = new_run_id(7)


def test_every_type_has_its_payload_keys_and_none_hides_a_fixed_one() -> None:
    assert set(EVENT_KEYS) == set(EventType)
    assert all(not keys & {"e", "r", "t"} for keys in EVENT_KEYS.values())


@pytest.mark.parametrize("raw_type", [str, str.encode])
def test_a_stored_entry_is_read_with_its_payload_and_time(raw_type: object) -> None:
    text = json.dumps(
        {"e": "steer.delivered", "r": RUN, "t": 1_700_000_000_123, "steer": "s1", "iteration": 2}
    )
    event = Event.from_json(5, raw_type(text))  # pyright: ignore[reportCallIssue, reportUnknownArgumentType]
    assert (event.sequence, event.type, event.run_id) == (5, EventType.STEER_DELIVERED, RUN)
    assert event.at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert event.data == {"steer": "s1", "iteration": 2}


def test_an_event_as_plain_values_is_json() -> None:
    event = Event.from_json(0, json.dumps({"e": "run.resumed", "r": RUN, "t": 0, "wakeup": 3}))
    assert json.loads(json.dumps(event.to_dict())) == {
        "sequence": 0,
        "type": "run.resumed",
        "run_id": RUN,
        "at": "1970-01-01T00:00:00Z",
        "data": {"wakeup": 3},
    }


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "[]",
        "{}",
        "7",
        "null",
        "[" * 100_000,
        b"\xff",
        '{"e":"run.exploded","r":"x","t":1}',
        '{"e":"run.resumed","t":1}',
        '{"e":"run.resumed","r":"x","t":1e999}',
        '{"e":"run.resumed","r":"x","t":99999999999999999999}',
        '{"e":[],"r":"x","t":1}',
        '{"e":"run.resumed","r":5,"t":1}',
    ],
)
def test_an_entry_that_is_no_event_is_a_reply_error(raw: str | bytes) -> None:
    with pytest.raises(StoreReplyError, match="entry 4"):
        Event.from_json(4, raw)


@given(st.text() | st.binary())
def test_reading_arbitrary_entries_raises_nothing_else(raw: str | bytes) -> None:
    with pytest.raises(StoreReplyError):
        Event.from_json(1, raw)


def test_the_error_and_the_repr_repeat_no_payload() -> None:
    event = Event.from_json(
        0, json.dumps({"e": "tool.progress", "r": RUN, "t": 0, "index": 1, "message": "hush"})
    )
    assert "hush" not in repr(event)
    with pytest.raises(StoreReplyError) as caught:
        Event.from_json(0, '{"e":"tool.progress","r":5,"t":0,"message":"hush"}')
    assert "hush" not in repr(caught.value)
    assert caught.value.__context__ is None


def test_an_event_cannot_be_changed() -> None:
    event = Event.from_json(0, json.dumps({"e": "run.resumed", "r": RUN, "t": 0, "wakeup": 3}))
    with pytest.raises(ValidationError):
        event.sequence = 9
