"""Broken call ids and arguments, mended the same way each time."""

import json

import pytest

from retinue.worker.models.calls import raw_arguments, unique_call_ids, wire_arguments


def test_a_json_object_is_stored_byte_for_byte():
    assert wire_arguments('{ "a" : 1e3 }') == '{ "a" : 1e3 }'


@pytest.mark.parametrize("raw", ['{"a": 1', "[1]", '"text"', "not json", '{"a":NaN}', "\x00", '{"a":"ü'])
def test_other_arguments_are_stored_as_an_object_and_read_back_raw(raw: str):
    stored = wire_arguments(raw)
    assert isinstance(json.loads(stored), dict)
    assert raw_arguments(stored) == raw


@pytest.mark.parametrize("raw", ["", " \n"])
def test_blank_arguments_are_an_empty_object(raw: str):
    assert wire_arguments(raw) == "{}"
    assert raw_arguments(raw) == "{}"


def test_good_ids_stay_as_they_are():
    assert unique_call_ids(["call_a", "call_b"], 7) == ["call_a", "call_b"]


def test_missing_and_repeated_ids_are_replaced_by_unique_ones():
    ids = unique_call_ids(["x", "", "x", ""], 7)
    assert ids[0] == "x"
    assert len(set(ids)) == 4
    assert all(len(made) == 9 and made.isalnum() for made in ids[1:])


def test_made_ids_depend_on_the_turn_and_the_place_alone():
    assert unique_call_ids(["", ""], 7) == unique_call_ids(["", ""], 7)
    assert not set(unique_call_ids(["", ""], 7)) & set(unique_call_ids(["", ""], 9))


def test_a_made_id_never_meets_one_that_the_model_gave():
    made = unique_call_ids([""], 7)[0]
    ids = unique_call_ids(["", made, made], 7)
    assert ids[1] == made
    assert len(set(ids)) == 3
