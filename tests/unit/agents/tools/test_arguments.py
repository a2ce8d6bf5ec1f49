from __future__ import annotations

import pytest

from retinue.agents import ToolArgumentError
from retinue.agents.tools.arguments import check_arguments, parse_arguments
from retinue.agents.tools.schema import ArgumentSchema


def book(query: str, limit: int = 3, tags: list[str] | None = None, deep: bool = False) -> str:
    return query


SCHEMA = ArgumentSchema.of(book, tool="book")


def refusal(raw: object) -> str:
    with pytest.raises(ToolArgumentError) as caught:
        check_arguments(SCHEMA, raw)  # pyright: ignore[reportArgumentType]
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_values_are_converted_to_the_functions_types() -> None:
    raw = '{"query": 12, "limit": "7", "deep": "true"}'
    assert check_arguments(SCHEMA, raw) == {"query": "12", "limit": 7, "deep": True}


def test_only_what_was_given_is_passed_on() -> None:
    assert check_arguments(SCHEMA, {"query": "x"}) == {"query": "x"}


def test_json_within_text_is_accepted_where_a_list_is_due() -> None:
    assert check_arguments(SCHEMA, '{"query": "[x]", "tags": "[\\"a\\"]"}') == {"query": "[x]", "tags": ["a"]}


def test_an_object_encoded_twice_is_accepted() -> None:
    assert check_arguments(SCHEMA, '"{\\"query\\": \\"x\\"}"') == {"query": "x"}


@pytest.mark.parametrize("raw", ["", "  ", None, "null", {}, b""])
def test_nothing_means_no_arguments(raw: str | None) -> None:
    assert parse_arguments(raw) == {}


def test_an_unknown_argument_is_named_with_the_near_one_and_all_allowed_ones() -> None:
    text = refusal('{"querry": "x"}')
    assert "unknown argument 'querry' (did you mean 'query'?)" in text
    assert "missing argument 'query'" in text
    assert "Allowed arguments: query (string, required), limit (integer)" in text


def test_a_wrong_value_is_named_and_cut() -> None:
    text = refusal({"query": "x", "limit": "y" * 5_000})
    assert "argument 'limit'" in text
    assert len(text) < 500


@pytest.mark.parametrize(
    "raw", ['{"query": ', "[1]", "3", '{"query": NaN}', "[" * 100_000, "1" * 5_000, "true"]
)
def test_what_is_no_json_object_is_refused_with_advice(raw: str) -> None:
    assert "JSON object" in refusal(raw)


def test_many_problems_are_counted_not_listed() -> None:
    assert "and 93 more" in refusal({f"x{n}": 1 for n in range(100)})
