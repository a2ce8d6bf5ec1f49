"""What is stored of a launch and of an end: the parts that the store keeps without looking into them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from retinue.contract import Role, SubagentLaunchRequest, bound_text, canonical_json

if TYPE_CHECKING:
    from retinue.agents.effective import Inheritance

FULL_TEXT_MAX_CHARS = 1_000_000
"""Longest summary that is kept; a result shows 32,000 characters of it."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A launch as it is kept with the run.

    Args:
        request: As it was asked for.
        role: The effective one, after the depth limit.
        provider, model: As advertised at launch, for the handle. None = not known then.
        inherited: What the run may take over from its parent. None = a root.
    """

    request: SubagentLaunchRequest
    role: Role
    provider: str | None = None
    model: str | None = None
    inherited: Inheritance | None = None

    def to_json(self) -> str:
        """As it is stored; fields that say nothing are left out."""
        value: dict[str, Any] = {"request": json.loads(self.request.to_json()), "role": self.role.value}
        if self.provider is not None:
            value["provider"] = self.provider
        if self.model is not None:
            value["model"] = self.model
        if self.inherited is not None:
            value["inherited"] = self.inherited.model_dump(mode="json", exclude_defaults=True)
        return canonical_json(value)

    @classmethod
    def from_json(cls, text: str) -> Ticket:
        """The ticket that `to_json` wrote."""
        value = json.loads(text)
        return cls(
            request=SubagentLaunchRequest.parse(value["request"]),
            role=Role(value["role"]),
            provider=value.get("provider"),
            model=value.get("model"),
            inherited=_inheritance(value.get("inherited")),
        )


def _inheritance(value: Any) -> Inheritance | None:
    if value is None:
        return None
    # Only children have one, so a client that reads roots need not import the declarations.
    from retinue.agents.effective import Inheritance

    return Inheritance.model_validate(value)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run came to, as its worker wrote it down.

    Args:
        summary: The last text, at most a million characters.
        payload: A structured result.
        message: What went wrong.
    """

    summary: str | None = field(default=None, repr=False)
    payload: JsonValue = field(default=None, repr=False)
    message: str | None = field(default=None, repr=False)

    def to_json(self) -> str:
        """As it is stored."""
        summary = None if self.summary is None else bound_text(self.summary, FULL_TEXT_MAX_CHARS)[0]
        value = {"summary": summary, "payload": self.payload, "message": self.message}
        return json.dumps({name: item for name, item in value.items() if item is not None})

    @classmethod
    def from_json(cls, text: str | None) -> Verdict:
        """The verdict that `to_json` wrote; None (the store ended the run) = nothing to say."""
        return cls(**json.loads(text)) if text else cls()
