from __future__ import annotations

from pathlib import Path

import pytest
import typer

from retinue.cli.value_options import json_file, key_values


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


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), (b"{", "is no JSON"), (b"NaN", "is no JSON"), (b"\xff", "is no JSON")],
)
def test_a_file_without_json_is_named_with_the_option(
    content: bytes | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(typer.BadParameter, match=says) as caught:
        json_file("--output-schema", path)

    assert "--output-schema" in str(caught.value)
    assert "schema.json" in str(caught.value)
