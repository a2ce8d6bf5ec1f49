"""Whether what a model wrote is a result: as a call's arguments, or as a text."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import BaseModel, Field
from tests.unit.agents.conftest import SettingsFactory

from retinue.agents import Agent, DeclarationError, EffectiveSpec, Grant, Registry, SubAgentSpec, resolve
from retinue.agents.builtin_tools.output import FittingOutput, UnfitOutput, read_answer, read_submitted
from retinue.agents.tools.output_validator import check_is_schema
from retinue.contract import PAYLOAD_MAX_BYTES, SubagentLifecycleError

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "pattern": "^[a-z]+$"},
        "count": {"type": "integer", "minimum": 1},
        "note": {"type": "string", "default": "none"},
    },
    "required": ["sku", "count"],
    "additionalProperties": False,
}
FITS = '{"sku": "mug", "count": 2, "note": "é"}'


def problems(schema: dict[str, Any], text: str) -> str:
    output = read_answer(schema, text)
    assert isinstance(output, UnfitOutput)
    return "\n".join(output.problems)


@pytest.mark.parametrize(
    "text",
    [
        FITS,
        f"\n  {FITS}\n",
        f"```json\n{FITS}\n```",
        f"```\n{FITS}```",
        f"Here it is:\n\n```JSON\n{FITS}\n```\nAnything else?",
    ],
)
def test_a_text_that_is_the_json_of_a_result_is_one(text: str) -> None:
    assert read_answer(ORDER, text) == FittingOutput({"sku": "mug", "count": 2, "note": "é"})


def test_a_fence_may_hold_fences() -> None:
    schema = {"type": "object", "required": ["code"]}
    text = 'Done.\n```json\n{"code": "```py\\nx\\n```"}\n```'

    assert read_answer(schema, text) == FittingOutput({"code": "```py\nx\n```"})


@pytest.mark.parametrize(
    "text",
    [
        "I am done.",
        "[1]",
        "null",
        '"{}"',
        "{",
        '{"sku": "mug", "count": NaN}',
        "{" * 100_000,
        "```python\n{}\n```",
        "```",
        f"{FITS} as you asked",
    ],
)
def test_any_other_text_is_none(text: str) -> None:
    assert "not a JSON object" in problems(ORDER, text)


def test_what_does_not_fit_is_named_by_its_place() -> None:
    found = problems(ORDER, '{"sku": "MUG", "count": "2", "colour": "red"}')

    assert "$.sku: 'MUG' does not match '^[a-z]+$'" in found
    assert "$.count: '2' is not of type 'integer'" in found
    assert "'colour' was unexpected" in found


def test_a_long_list_of_problems_and_a_long_value_are_cut() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    wrong = "{" + ",".join(f'"{n}": "{"x" * 5_000}"' for n in range(9)) + "}"

    output = read_answer(schema, wrong)

    assert isinstance(output, UnfitOutput)
    assert (len(output.problems), output.problems[-1]) == (6, "and more")
    assert all(len(line) < 500 for line in output.problems)
    assert output.problems[0].endswith("is not of type 'integer'")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [("{", "not valid JSON"), ("[]", "not a JSON object"), ("", "'sku' is a required property")],
)
def test_arguments_that_are_no_result_are_refused(arguments: str, says: str) -> None:
    output = read_submitted(ORDER, arguments)

    assert isinstance(output, UnfitOutput)
    assert says in "\n".join(output.problems)


def test_arguments_that_fit_are_a_result_and_its_text_is_its_json() -> None:
    output = read_submitted(ORDER, FITS)

    assert isinstance(output, FittingOutput)
    assert output.text == '{"sku":"mug","count":2,"note":"é"}'


def test_what_is_left_out_has_its_default_where_that_fits() -> None:
    assert read_submitted(ORDER, '{"sku": "a", "count": 1}') == FittingOutput(
        {"note": "none", "sku": "a", "count": 1}
    )
    wrong = {"type": "object", "properties": {"n": {"type": "integer", "default": "many"}}}
    assert read_submitted(wrong, "{}") == FittingOutput({})


def test_a_result_that_a_client_could_not_be_given_is_none() -> None:
    schema = {"type": "object"}
    assert "bytes" in problems(schema, f'{{"a": "{"x" * PAYLOAD_MAX_BYTES}"}}')
    assert "surrogate" in problems(schema, '{"a": "\\ud800"}')
    assert "NUL" in problems(schema, '{"a": "\\u0000"}')
    assert "containers" in problems(schema, '{"a": ' + "[" * 70 + "]" * 70 + "}")


def test_a_pattern_that_would_take_for_ever_elsewhere_is_matched_at_once() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    check_is_schema(schema)
    started = time.monotonic()

    assert "does not match" in problems(schema, f'{{"a": "{"a" * 50_000}!"}}')
    assert time.monotonic() - started < 60  # the naive search would not end at all


def doubling(levels: int) -> dict[str, Any]:
    """A schema of a kilobyte that asks for 2^levels checks."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**doubled, f"d{levels}": {}}}


@pytest.mark.parametrize(
    "schema", [doubling(60), {"type": "object", "$ref": "#"}], ids=["doubling", "itself"]
)
def test_a_schema_that_asks_for_too_much_is_given_up(schema: dict[str, Any]) -> None:
    check_is_schema(schema)

    assert "takes too long" in problems(schema, "{}")


def test_a_result_as_large_as_may_be_is_checked_whole() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
    }
    numbers = ",".join("1" for _ in range(21_000))

    assert isinstance(read_answer(schema, f'{{"a": [{numbers}]}}'), FittingOutput)
    assert "$.a[21000]" in problems(schema, f'{{"a": [{numbers},"x"]}}')


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": []}, "is no JSON schema"),
        ({"type": "object", "properties": {"a": {"type": "number", "minimum": "1"}}}, "is no JSON schema"),
        ({"type": "object", "required": "a"}, "is no JSON schema"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "has the pattern"),
        ({"type": "object", "anyOf": [{"properties": {"a": {"pattern": "(?=x)"}}}]}, "look-around"),
        ({"type": "object", "patternProperties": {"(a+)+$": {}}}, "patternProperties"),
        ({"type": "object", "properties": {"properties": {"patternProperties": {}}}}, "patternProperties"),
    ],
)
def test_what_is_no_schema_or_cannot_be_checked_is_refused(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(SubagentLifecycleError, match=says) as caught:
        check_is_schema(schema)

    assert (caught.value.field, bool(caught.value.mend)) == ("output_schema", True)


def test_properties_may_be_called_like_words_of_the_language() -> None:
    check_is_schema({"type": "object", "properties": {"pattern": {"type": "string"}, "type": {}}})


class Report(BaseModel):
    title: str
    score: int = Field(ge=0, le=10)


def test_a_declaration_takes_a_model_or_a_schema_and_a_launch_goes_before_it(
    make_settings: SettingsFactory,
) -> None:
    writer = Agent(name="writer", instructions="Write.", model="m", output_schema=Report)
    clerk = SubAgentSpec(name="clerk", description="d", model_name="m", output_schema=ORDER)
    registry = Registry.from_objects(writer, clerk)

    declared = resolve(registry, make_settings(), "writer")
    launched = resolve(registry, make_settings(), "writer", output_schema=ORDER)

    assert declared.output_schema == Report.model_json_schema()
    assert launched.output_schema == ORDER
    assert resolve(registry, make_settings(), "clerk").output_schema == ORDER
    assert "submit_result" in declared.instructions


def test_after_a_handoff_the_run_owes_what_it_was_launched_for(make_settings: SettingsFactory) -> None:
    owner = Agent(name="owner", instructions="x", model="m", output_schema=ORDER)
    other = Agent(name="other", instructions="x", model="m", output_schema=Report)
    plain = Agent(name="plain", instructions="x", model="m")
    registry = Registry.from_objects(owner, other, plain)

    assert resolve(registry, make_settings(), "other", owns="owner").output_schema == ORDER
    assert resolve(registry, make_settings(), "other", owns="plain").output_schema is None


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, "x", int, {"type": "object", "properties": {"a": {"$ref": "x"}}}]
)
def test_a_declaration_with_another_schema_is_refused_by_name(schema: Any) -> None:
    for declare in (
        lambda: Agent(name="writer", instructions="x", output_schema=schema),
        lambda: SubAgentSpec(name="writer", description="x", output_schema=schema),
    ):
        with pytest.raises(DeclarationError, match="output_schema: of agent 'writer'"):
            declare()


def test_a_worker_does_not_start_with_an_agent_whose_schema_is_none() -> None:
    writer = Agent(name="writer", instructions="x", output_schema={"type": "object", "properties": []})

    with pytest.raises(DeclarationError, match=r"output_schema: of agent 'writer' is no JSON schema"):
        Registry.from_objects(writer)


def test_the_tool_is_offered_with_the_schema_whatever_the_grant_takes_away() -> None:
    spec = EffectiveSpec(agent="a", max_iterations=1, output_schema=ORDER, grant=Grant(toolsets=()))

    [tool] = spec.built_in_tools
    assert (tool.name, tool.parameters) == ("submit_result", ORDER)
    assert spec.built_in_tools_within(Grant(blocked_tools=("submit_result",))) == (tool,)
    assert EffectiveSpec(agent="a", max_iterations=1).built_in_tools == ()
