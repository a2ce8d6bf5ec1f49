"""Answers are JSON that any reader takes, with every value in its own form."""

from __future__ import annotations

import json

from retinue.http.json_answer import JsonAnswer


def body(value: object) -> bytes:
    """What is sent for a value."""
    return bytes(JsonAnswer(value).body)


def test_numbers_and_null_keep_their_form() -> None:
    assert body({"a": 1, "b": 1.0, "c": None, "d": 12345678901234567890}) == (
        b'{"a":1,"b":1.0,"c":null,"d":12345678901234567890}'
    )


def test_text_is_sent_as_it_is() -> None:
    assert body({"text": "Münster"}) == '{"text":"Münster"}'.encode()


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert json.loads(body({"text": "\ud800"})) == {"text": "\ud800"}
    body({"text": "\ud800"}).decode("ascii")


def test_what_json_does_not_have_becomes_null() -> None:
    value = {"payload": [float("nan"), {"x": float("inf")}, (1.5,)]}

    assert json.loads(body(value)) == {"payload": [None, {"x": None}, [1.5]]}
