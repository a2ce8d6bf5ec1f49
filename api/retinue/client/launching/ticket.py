"""What is stored of a launch and of an end: the parts that the store keeps without looking into them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from retinue.contract import Role, SubagentLaunchRequest, bound_text, canonical_json

if TYPE_CHECKING:
    from retinue.agents.effective.effective import Inheritance

FULL_TEXT_MAX_CHARS = 1_000_000
"""Longest summary that is kept; a result shows 32,000 characters of it."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where a run stands that a member of a group asked another member for.

    Args:
        conversations: Threads of the conversations around the run's own, by the group's registered name.
        caller: Registered name of the member that waits for the answer.
        depth: Messages above it, up to the conversation that was not asked for by a member.
        counted_on: The run whose record counts the group's messages: the owner of that conversation.
    """

    conversations: Mapping[str, str]
    caller: str
    depth: int
    counted_on: str

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain JSON values."""
        return {
            "conversations": dict(self.conversations),
            "caller": self.caller,
            "depth": self.depth,
            "counted_on": self.counted_on,
        }


@dataclass(frozen=True, slots=True)
class JoinedThread:
    """A thread that outlives the run, and may have been begun by an earlier one.

    Args:
        thread_id: Which.
        owner: The agent that it was handed off to, which answers in place of the request's. None = never.
        continues: The run whose conversation goes on. None = the thread is that of a pair in a group.
        group: The run's place in that group.
    """

    thread_id: str
    owner: str | None = None
    continues: str | None = None
    group: GroupPlace | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """A launch as it is kept with the run.

    Args:
        request: As it was asked for.
        role: The effective one, after the depth limit.
        provider, model: As advertised at launch, for the handle. None = not known then.
        inherited: What the run may take over from its parent. None = a root.
        group: Its place, where a member of a group asked for it.
        thread: The conversation that it goes on with. None = one that it begins, or a group's.
        document: The run whose launch brought the document of this run's agent. None = its own, if any.
    """

    request: SubagentLaunchRequest
    role: Role
    provider: str | None = None
    model: str | None = None
    inherited: Inheritance | None = None
    group: GroupPlace | None = None
    thread: str | None = None
    document: str | None = None

    def to_json(self, request_json: str | None = None) -> str:
        """As it is stored; fields that say nothing are left out.

        Args:
            request_json: What request.to_json() gave, if it is in hand.
        """
        value: dict[str, Any] = {"role": self.role.value}
        if self.group is not None:
            value["group"] = self.group.to_dict()
        if self.thread is not None:
            value["thread"] = self.thread
        if self.document is not None:
            value["document"] = self.document
        if self.provider is not None:
            value["provider"] = self.provider
        if self.model is not None:
            value["model"] = self.model
        if self.inherited is not None:
            value["inherited"] = self.inherited.model_dump(mode="json", exclude_defaults=True)
        # A request may hold 50,000 characters: it goes in as the text that it is already.
        return f'{{"request":{request_json or self.request.to_json()},{canonical_json(value)[1:]}'

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
            group=None if (group := value.get("group")) is None else GroupPlace(**group),
            thread=value.get("thread"),
            document=value.get("document"),
        )


def metadata_in(ticket_json: str) -> Mapping[str, JsonValue]:
    """The metadata of the request in a stored ticket, without checking the rest of it again."""
    return json.loads(ticket_json)["request"].get("metadata", {})


def webhook_url_in(ticket_json: str) -> str | None:
    """The URL of the webhook in a stored ticket's request; None = it has none of its own."""
    webhook = json.loads(ticket_json)["request"].get("webhook")
    return None if webhook is None else webhook["url"]


def _inheritance(value: Any) -> Inheritance | None:
    if value is None:
        return None
    # Only children have one, so a client that reads roots need not import the declarations.
    from retinue.agents.effective.effective import Inheritance

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
