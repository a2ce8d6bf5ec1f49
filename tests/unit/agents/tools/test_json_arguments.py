from __future__ import annotations

import pytest

from retinue.agents import tool
from retinue.agents.tools.arguments import ToolArgumentError
from retinue.agents.tools.json_arguments import declared_arguments, json_arguments

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


@tool
def forecast(city: str, days: int, unit: str = "C") -> str:
    """The weather to come."""
    return f"{city} {days} {unit}"


def test_a_function_gets_the_defaults_that_a_document_declares_for_it() -> None:
    properties = {"city": {}, "days": {"default": 3}, "unit": {"default": "F"}}
    schema = {"type": "object", "properties": properties}

    def read(raw: str) -> dict[str, object]:
        return forecast.check(declared_arguments(schema, forecast, raw))  # pyright: ignore[reportArgumentType]

    assert read('{"city": "Rome"}') == {"city": "Rome", "days": 3, "unit": "F"}
    assert read('{"city": "Rome", "days": 1, "unit": "K"}') == {"city": "Rome", "days": 1, "unit": "K"}


def test_a_default_of_null_leaves_the_functions_own() -> None:
    schema = {"type": "object", "properties": {"city": {}, "days": {}, "unit": {"default": None}}}

    read = declared_arguments(schema, forecast, '{"city": "Rome", "days": 1}')  # pyright: ignore[reportArgumentType]

    assert read == {"city": "Rome", "days": 1}


def test_a_tool_that_describes_itself_is_left_to_its_own_defaults() -> None:
    assert declared_arguments(forecast.parameters, forecast, '{"city": "Rome"}') == {"city": "Rome"}
