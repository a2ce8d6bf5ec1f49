"""Inputs and outputs of Agent Spec components: what prompts need, and the shape of what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from .placeholders import PromptInput, placeholders

if TYPE_CHECKING:
    from pyagentspec.property import Property


def prompt_inputs(
    prompt: str, declared: Iterable[Property], around: Mapping[str, Property]
) -> tuple[PromptInput, ...]:
    """What a prompt's placeholders need.

    Args:
        prompt: the system prompt.
        declared: the agent's own inputs; the first of a name counts.
        around: the inputs that the groups around the agent declare, by name. Their defaults stand in where
            the agent has none, and their types where it only names the input.
    """
    own: dict[str, Property] = {}
    for item in declared:
        own.setdefault(item.title, item)
    return tuple(_merged(name, own.get(name), around.get(name)) for name in placeholders(prompt))


def output_schema(outputs: Iterable[Property]) -> dict[str, JsonValue] | None:
    """The JSON schema of an object with these outputs; None where there are none."""
    properties = {item.title: _schema(item) for item in outputs}
    if not properties:
        return None
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": cast("dict[str, JsonValue]", properties),
        "additionalProperties": False,
    }
    required = [name for name, item in properties.items() if "default" not in item]
    if required:
        schema["required"] = list[JsonValue](required)
    return schema


def _merged(name: str, own: Property | None, group: Property | None) -> PromptInput:
    if group is None:
        return PromptInput(name) if own is None else _prompt_input(own)
    if own is None or _is_bare(own):
        return _prompt_input(group)
    item = _prompt_input(own)
    if item.has_default or "default" not in group.json_schema:
        return item
    return replace(item, has_default=True, default=_prompt_input(group).default)


def _is_bare(item: Property) -> bool:
    """Whether the input says no more than its name: pyagentspec makes such a one of each placeholder."""
    return item.json_schema == {"title": item.title, "type": "string"}


def _prompt_input(item: Property) -> PromptInput:
    kinds = item.json_schema.get("type")
    types = tuple(str(kind) for kind in (cast("list[object]", kinds) if isinstance(kinds, list) else [kinds]))
    has_default = "default" in item.json_schema
    return PromptInput(
        name=item.title,
        types=() if kinds is None else types,
        has_default=has_default,
        default=cast("JsonValue", item.json_schema.get("default")) if has_default else None,
        description=item.description,
    )


def _schema(item: Property) -> dict[str, JsonValue]:
    schema = cast("Mapping[str, JsonValue]", item.json_schema)
    return {key: value for key, value in schema.items() if key != "title"}
