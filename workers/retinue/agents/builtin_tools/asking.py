"""The tools with which a model asks: the user, or the model of the agent that started it."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from .roster import DelegationTool

ASK_USER: Final = "ask_user"
ASK_PARENT: Final = "ask_parent"
ASKING_TOOLS: Final = (ASK_USER, ASK_PARENT)

QUESTION: Final = "question"
"""The one argument of both."""


def asking_tools(*, user: bool, parent: bool) -> tuple[DelegationTool, ...]:
    """The tools, as they are offered to a model.

    Args:
        user: whether it may ask the user.
        parent: whether it may ask who started it.
    """
    ask_user = DelegationTool(
        ASK_USER,
        "Ask the user, and get the answer. Ask only for what you need to go on and cannot find out yourself.",
        _schema("The whole question, with all that the user needs to know to answer it."),
    )
    ask_parent = DelegationTool(
        ASK_PARENT,
        "Ask whoever gave you this task, and get the answer. Ask only for what you need to go on and cannot "
        "find out yourself.",
        _schema("The whole question: what you do, what is unclear, what the choices are."),
    )
    return (*((ask_user,) if user else ()), *((ask_parent,) if parent else ()))


def _schema(description: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "properties": {QUESTION: {"type": "string", "description": description}},
        "required": [QUESTION],
        "additionalProperties": False,
    }
