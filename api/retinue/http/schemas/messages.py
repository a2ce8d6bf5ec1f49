"""The answer of GET /v1/runs/{run_id}/messages."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from retinue.http.schemas.answer import Answer

_EXAMPLE: Final[dict[str, Any]] = {
    "messages": [
        {
            "role": "user",
            "agent": None,
            "text": "May I return opened headphones?",
            "calls": [],
            "calls_left_out": 0,
            "call": None,
        },
        {
            "role": "assistant",
            "agent": "support",
            "text": "",
            "calls": [{"name": "search_handbook", "arguments": '{"query":"opened headphones"}'}],
            "calls_left_out": 0,
            "call": None,
        },
        {
            "role": "tool",
            "agent": None,
            "text": "Opened goods: 14 days.",
            "calls": [],
            "calls_left_out": 0,
            "call": "search_handbook",
        },
    ],
    "next_cursor": None,
}


class CallAnswer(Answer):
    """A tool call."""

    name: str
    arguments: str = Field(description="As the model wrote them: JSON, unless it is cut.")


class MessageAnswer(Answer):
    """One message of a conversation; what is cut says so."""

    role: Literal["user", "assistant", "tool"]
    agent: str | None = Field(description="Who said it; null = no agent, or it is not known which.")
    text: str = Field(description="What was said, or what a tool gave back.")
    calls: list[CallAnswer] = Field(description="The tools that it calls.")
    calls_left_out: int = Field(description="Calls that are not among them.")
    call: str | None = Field(
        description="The tool whose result it is; null = none, or it is not known which."
    )


class MessagesAnswer(Answer):
    """A part of a conversation, the newest message last, without what a model thinks to itself."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    messages: list[MessageAnswer]
    next_cursor: str | None = Field(description="Where older messages are; null = there are none.")
