from __future__ import annotations

import json

import pytest

from retinue.http.middleware.json_check import check_json, depth_of
from retinue.http.problems import Problem


def nested(depth: int) -> bytes:
    return (
        b'{"a":' * (depth // 2)
        + b"[" * (depth - depth // 2)
        + b"]" * (depth - depth // 2)
        + b"}" * (depth // 2)
    )


@pytest.mark.parametrize(
    "body", [b"{}", b"[1, 2]", b'"text"', b"1.5", b"null", '"\u00e4 \U0001f600"'.encode()]
)
def test_json_passes(body: bytes) -> None:
    check_json(body, 64)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{} {}",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',  # a surrogate in UTF-8
        b'{"a": "\\ud800"}',
        b'{"\\udc00": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"\xef\xbb\xbf{}",
        b"9" * 5_000,
        b"   ",
    ],
)
def test_what_is_no_json_by_the_letter_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as refused:
        check_json(body, 64)

    assert (refused.value.code, refused.value.status) == ("MALFORMED_JSON", 400)
    assert "line 1 column" in refused.value.detail


def test_the_refusal_quotes_nothing_of_the_body() -> None:
    with pytest.raises(Problem) as refused:
        check_json(b'{"goal": "the secret plan", oops}', 64)

    assert "secret" not in json.dumps(refused.value.to_dict())


@pytest.mark.parametrize("depth", [63, 64])
def test_nesting_up_to_the_limit_passes(depth: int) -> None:
    check_json(nested(depth), 64)


@pytest.mark.parametrize("depth", [65, 150, 300, 100_000])
def test_deeper_nesting_is_refused_however_deep(depth: int) -> None:
    with pytest.raises(Problem) as refused:
        check_json(nested(depth), 64)

    assert (refused.value.code, refused.value.status) == ("JSON_TOO_DEEP", 400)
    assert refused.value.limit == "64 arrays and objects"


@pytest.mark.parametrize(
    ("value", "depth"), [(1, 0), ("[[[", 0), ([], 1), ({"a": 1}, 1), ([1, {"a": [2]}, []], 3)]
)
def test_the_depth_is_that_of_the_deepest_branch(value: object, depth: int) -> None:
    assert depth_of(value, 64) == depth
