"""JSON that has to survive what models and servers write."""

import pytest

from retinue.worker.models.wire import count_of, dump_json, load_object, mend_surrogates


def test_a_pair_cut_in_two_deltas_becomes_one_character():
    assert mend_surrogates("a\ud83d" + "\ude00b") == "a\U0001f600b"


def test_a_lone_surrogate_is_replaced_so_that_the_text_can_be_encoded():
    assert dump_json({"t": "ü\ud83d"}).encode() == '{"t":"ü\ufffd"}'.encode()


@pytest.mark.parametrize("text", ["[1]", '"a"', "{", "", "null", '{"a":NaN}', '{"a":' * 200_000])
def test_what_is_no_json_object_loads_as_none(text: str):
    assert load_object(text) is None


def test_a_number_that_json_lacks_is_refused_when_written():
    with pytest.raises(ValueError):
        dump_json({"a": float("inf")})


@pytest.mark.parametrize(
    ("value", "count"), [(3, 3), (3.0, 3), (None, 0), (True, 0), (-1, 0), ("3", 0), (float("nan"), 0)]
)
def test_counts_are_read_tolerantly(value: object, count: int):
    assert count_of(value) == count
