"""What may stand as an output schema, as far as the contract itself can tell."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from retinue.contract import OUTPUT_SCHEMA_MAX_BYTES, SubagentLaunchRequest, SubagentLifecycleError
from retinue.contract.output_schema import output_schema


class Line(BaseModel):
    sku: str = Field(pattern="^[a-z]+$")
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    note: str | None = None


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def check(value: object) -> dict[str, Any]:
    return output_schema("output_schema", value)


def test_a_pydantic_model_becomes_its_schema_and_reaches_the_stored_request() -> None:
    request = SubagentLaunchRequest.parse(goal="g", output_schema=Order)

    assert request.output_schema == Order.model_json_schema()
    assert SubagentLaunchRequest.parse(request.to_dict()) == request
    assert "output_schema" in request.to_json()


def test_the_schema_is_copied_so_that_a_later_change_does_no_harm() -> None:
    given = {"type": "object", "properties": {"n": {"type": "integer"}}}
    checked = check(given)
    given["properties"] = {}

    assert checked["properties"] == {"n": {"type": "integer"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/x~1y%20z"}}, "$defs": {"x/y z": True}},
        {"type": "object", "properties": {"a": {"$ref": "#/allOf/0"}}, "allOf": [{}]},
        {"$id": "https://example.com/order", "$schema": "x", "type": "object"},
        # Names of properties, not words of the schema language.
        {"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}},
    ],
)
def test_references_within_the_schema_are_fine(schema: dict[str, Any]) -> None:
    assert check(schema) == schema


@pytest.mark.parametrize(
    "ref",
    [
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "other.json#/a",
        "#anchor",
        "#/$defs/missing",
        "#/type",
        "#/allOf/7",
        "",
    ],
)
def test_a_reference_that_leads_out_of_the_schema_or_nowhere_is_refused(ref: str) -> None:
    schema = {"type": "object", "properties": {"a": {"items": [{"$ref": ref}]}}, "allOf": [{}]}

    with pytest.raises(SubagentLifecycleError, match="leads out of it or nowhere") as caught:
        check(schema)

    assert caught.value.field == "output_schema"
    assert caught.value.mend


@pytest.mark.parametrize("word", ["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"])
def test_what_would_give_a_reference_another_meaning_is_refused(word: str) -> None:
    with pytest.raises(SubagentLifecycleError, match=f"uses \\{word} within"):
        check({"type": "object", "properties": {"a": {word: "#x"}}})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("object", "of type str"),
        ([], "of type list"),
        ({}, "not the schema of an object"),
        ({"type": "string"}, "not the schema of an object"),
        ({"type": ["object", "null"]}, "not the schema of an object"),
        ({"type": "object", "description": "x" * OUTPUT_SCHEMA_MAX_BYTES}, "too large"),
        ({"type": "object", "enum": [float("nan")]}, "NaN"),
        ({"type": "object", 1: {}}, "key of type int"),
        (nested(40), "too many containers"),
        (int, "of type type"),
        (Order(lines=[]), "of type Order"),
    ],
)
def test_anything_else_is_refused_with_the_limit_and_the_mend(value: object, says: str) -> None:
    with pytest.raises(SubagentLifecycleError, match=says) as caught:
        SubagentLaunchRequest.parse(goal="g", output_schema=value)

    assert caught.value.field == "output_schema"
    assert caught.value.limit


def test_a_model_without_a_schema_is_refused_by_name() -> None:
    class Handler(BaseModel):
        model_config = {"arbitrary_types_allowed": True}
        error: SubagentLifecycleError

    with pytest.raises(SubagentLifecycleError, match="Handler has no JSON schema"):
        check(Handler)
