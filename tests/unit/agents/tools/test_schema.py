from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from retinue.agents import DeclarationError, tool
from retinue.agents.tools.schema import ArgumentSchema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    title: str = ""


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Filter(TypedDict):
    field: str


def schema_of(function: object) -> dict[str, object]:
    return dict(ArgumentSchema.of(function, tool="t").parameters)  # pyright: ignore[reportArgumentType]


def test_types_defaults_and_descriptions_become_a_schema_without_titles() -> None:
    def search(query: str, limit: Annotated[int, Field(ge=1, description="How many.")] = 5) -> str:
        """Search.

        Args:
            query (str): what to look for,
                over two lines.
            limit: not this one.
        """
        return query

    assert schema_of(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to look for, over two lines."},
            "limit": {"type": "integer", "minimum": 1, "default": 5, "description": "How many."},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_sphinx_docstrings_are_read() -> None:
    def search(query: str) -> str:
        """Search.

        :param str query: what to look for
        :returns: text
        """
        return query

    schema = ArgumentSchema.of(search, tool="t")
    assert schema.description == "Search."
    assert schema.parameters["properties"] == {"query": {"type": "string", "description": "what to look for"}}


def test_nested_types_are_written_out() -> None:
    def draw(point: Point, colour: Colour, where: Filter, kind: Literal["a", "b"] | None = None) -> None: ...

    schema = schema_of(draw)
    assert "$defs" not in schema
    properties = schema["properties"]
    assert properties["point"] == {  # pyright: ignore[reportIndexIssue]
        "type": "object",
        "properties": {"x": {"type": "integer"}, "title": {"type": "string", "default": ""}},
        "required": ["x"],
    }
    assert properties["colour"] == {"type": "string", "enum": ["red", "blue"]}  # pyright: ignore[reportIndexIssue]


def test_recursive_types_keep_their_references() -> None:
    def walk(node: Node) -> None: ...

    assert schema_of(walk)["properties"] == {"node": {"$ref": "#/$defs/Node"}}


def test_parameter_names_that_pydantic_uses_itself_are_no_problem() -> None:
    def act(schema: str, copy: int, model_config: str, _hidden: int = 1) -> None: ...

    assert ArgumentSchema.of(act, tool="t").names == ("schema", "copy", "model_config", "_hidden")


def test_a_default_that_json_cannot_say_is_not_shown() -> None:
    marker = object()

    def act(x: object = marker) -> None: ...

    assert schema_of(act)["properties"] == {"x": {}}


def test_a_function_without_parameters_takes_none() -> None:
    assert schema_of(lambda: None) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_type_without_json_form_names_the_tool() -> None:
    class Engine: ...

    def act(engine: Engine) -> None: ...

    act.__annotations__["engine"] = Engine
    with pytest.raises(DeclarationError, match="tool 'act'"):
        tool(act)


def test_field_as_default_value_is_refused() -> None:
    def act(x: int = Field(ge=1)) -> None: ...

    with pytest.raises(DeclarationError, match="Annotated"):
        tool(act)


def test_the_types_of_a_wrapped_function_are_found() -> None:
    import functools

    def act(x: int) -> int:
        return x

    @functools.wraps(act)
    def wrapper(*args: object, **kwargs: object) -> object:
        return act(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    assert schema_of(wrapper)["properties"] == {"x": {"type": "integer"}}
