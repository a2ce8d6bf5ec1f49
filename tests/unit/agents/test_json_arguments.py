from __future__ import annotations

import pytest

from retinue.agents.arguments import ToolArgumentError
from retinue.agents.json_arguments import json_arguments

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
    "additionalProperties": False,
}


def test_arguments_that_were_left_out_get_their_defaults() -> None:
    assert json_arguments(SCHEMA, '{"city": "Rome"}') == {"city": "Rome", "days": 3}  # pyright: ignore
    assert json_arguments(SCHEMA, '{"city": "Rome", "days": 1}') == {"city": "Rome", "days": 1}  # pyright: ignore


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{}", "'city' is a required property"),
        ('{"city": 1}', "1 is not of type 'string'"),
        ('{"city": "Rome", "country": "IT"}', "'country' was unexpected"),
        ("[]", "not a JSON object"),
        ("{", "not valid JSON"),
    ],
)
def test_what_does_not_fit_is_said_to_the_model(raw: str, said: str) -> None:
    with pytest.raises(ToolArgumentError, match=said):
        json_arguments(SCHEMA, raw)  # pyright: ignore[reportArgumentType]


def test_a_tool_of_which_nothing_is_known_takes_any_object() -> None:
    assert json_arguments({"type": "object"}, '{"x": [1]}') == {"x": [1]}
