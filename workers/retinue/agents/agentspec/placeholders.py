"""``{{placeholders}}`` in prompts: found, checked against a launch's inputs, and filled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from retinue.agents.tools.tool_result import result_text

# The pattern of Agent Spec: one word; dotted paths and control blocks are left alone.
_PLACEHOLDER: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


@dataclass(frozen=True, slots=True)
class PromptInput:
    """An input that a prompt needs.

    Args:
        name: as in the placeholder.
        types: JSON types that the value may have. Empty = any.
        has_default: the launch may leave it out.
        default: what stands for it then.
        description: for whoever fills it.
    """

    name: str
    types: tuple[str, ...] = ("string",)
    has_default: bool = False
    default: JsonValue = None
    description: str | None = None

    def accepts(self, value: object) -> bool:
        """Whether the value has one of the types."""
        if not self.types:
            return True
        if isinstance(value, bool):  # in Python also an int
            return "boolean" in self.types
        return any(isinstance(value, _TYPES.get(kind, (object,))) for kind in self.types)


def placeholders(template: str) -> tuple[str, ...]:
    """The names in the template, each once, in order."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))


def fill(template: str, values: Mapping[str, JsonValue], inputs: Sequence[PromptInput] = ()) -> str:
    """The template with each placeholder that has a value replaced; values are not searched again."""
    defaults = {item.name: item.default for item in inputs if item.has_default}
    known: dict[str, JsonValue] = {**defaults, **values}

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return result_text(known[name]) if name in known else match[0]

    return _PLACEHOLDER.sub(replacement, template)
