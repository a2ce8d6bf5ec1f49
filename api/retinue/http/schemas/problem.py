"""The one shape of every refusal."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ProblemAnswer(BaseModel):
    """What was refused, why, and what the caller can do about it (RFC 9457)."""

    model_config = ConfigDict(
        title="Problem",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:retinue:problem:unknown-agent",
                    "title": "Unknown agent",
                    "status": 422,
                    "detail": "no agent of that name is known",
                    "code": "UNKNOWN_AGENT",
                    "field": "agent",
                    "mend": "use one of researcher, support",
                    "request_id": "0b6e1c0ed51f4a6c8f2f7c2a58b1a3de",
                }
            ]
        },
    )

    type: str = Field(description="urn:retinue:problem: and the code in lower case with hyphens.")
    title: str = Field(description="The code in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, for people.")
    code: str = Field(description="The reason, for programs. It is stable.")
    field: str | None = Field(default=None, description="What is at fault, dotted for nested ones.")
    limit: str | None = Field(default=None, description="The rule that it breaks, with its unit.")
    mend: str | None = Field(default=None, description="What the caller can do about it.")
    handle: dict[str, Any] | None = Field(
        default=None, description="Of LAUNCH_UNKNOWN: the run that may have been launched."
    )
    request_id: str | None = Field(default=None, description="As in the header X-Request-Id and in the log.")
