from __future__ import annotations

import pytest
import typer

from retinue.cli.value_options import key_values


def test_values_are_json_where_they_can_be() -> None:
    pairs = ["n=3", 'tags=["a"]', "flag=true", 'quoted="3"', "none=null"]

    assert key_values("--input", pairs) == {
        "n": 3,
        "tags": ["a"],
        "flag": True,
        "quoted": "3",
        "none": None,
    }


@pytest.mark.parametrize("text", ["plain words", "a=b", "", "NaN", "-Infinity", "{broken", "[" * 100_000])
def test_other_values_are_text(text: str) -> None:
    assert key_values("--input", [f"key={text}"]) == {"key": text}


@pytest.mark.parametrize("pairs", [["novalue"], ["=x"], ["a=1", "a=2"]])
def test_a_wrong_pair_is_refused_by_the_option_it_was_given_to(pairs: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match="--metadata"):
        key_values("--metadata", pairs)
