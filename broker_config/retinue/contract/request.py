"""What a caller asks for when launching a subagent, checked field by field before anything is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final, cast

from pydantic import Field, JsonValue

from .budget import Budget
from .canonical import canonical_json, json_object
from .checked import Checked, nested, text_keys
from .checks import Check, choice, count, name, names, optional, relative_path, seconds, text, type_fault
from .document import agent_document
from .errors import SubagentLifecycleError
from .handle import Role
from .ids import validate_agent_name, validate_session
from .limits import (
    CONTEXT_MAX_CHARS,
    CORRELATION_ID_MAX_CHARS,
    COUNT_MAX,
    GOAL_MAX_CHARS,
    INPUTS_MAX_BYTES,
    METADATA_MAX_BYTES,
    NAME_MAX_CHARS,
)
from .output_schema import output_schema
from .web_url import web_url


class OnDuplicate(StrEnum):
    """What a launch does when its correlation id is taken."""

    RAISE = "raise"
    RETURN = "return"  # the first run's handle for an equal request; another request is a conflict


class OnParentEnd(StrEnum):
    """What happens to a run whose parent ends before it."""

    CANCEL = "cancel"
    ABANDON = "abandon"  # it runs on, and nobody waits for it


class Priority(StrEnum):
    """The class in which a run waits for its first slot; resumed runs come before all of them."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"

    @property
    def step(self) -> int:
        """The priority step on the broker; 0, the first to be served, belongs to resumed runs."""
        return {"high": 3, "normal": 6, "low": 9}[self.value]


class OnDone(Checked):
    """The application's own Celery task that is sent the handle when the run has ended, at least once."""

    checks: ClassVar[Mapping[str, Check]] = {"task": text(max_chars=NAME_MAX_CHARS), "queue": name()}

    task: str  # its registered name; must be allow-listed in the settings
    queue: str | None = None  # None = the application's default queue


class Webhook(Checked):
    """Where the HTTP API's processes post that the run has ended, at least once, signed for its tenant."""

    checks: ClassVar[Mapping[str, Check]] = {"url": web_url}

    url: str = Field(repr=False)  # https://, and no private address, unless the settings allow it


class LaunchLimits(Checked):
    """Caps on one run and its subtree, which only tighten what settings and parent allow.

    None = no cap of its own.
    """

    checks: ClassVar[Mapping[str, Check]] = dict.fromkeys(
        ("max_tool_calls", "max_depth", "max_children", "max_tree"),
        optional(count(min_count=0, max_count=COUNT_MAX)),
    )

    max_tool_calls: int | None = None  # of the run itself
    max_depth: int | None = None  # of the tree, root = 0; inclusive
    max_children: int | None = None  # live at one time, of the run itself
    max_tree: int | None = None  # runs below the run, at any depth, over its life


def _tools(field: str, value: object) -> tuple[str, ...]:
    return () if value is None else names(field, value)


def _metadata(field: str, value: object) -> object:
    return {} if value is None else _json_metadata(field, value)


def _agent(field: str, value: object) -> str | None:
    return None if value is None else validate_agent_name(value, field=field)


def _session(field: str, value: object) -> str | None:
    return None if value is None or value == "" else validate_session(value, field=field)


_json_metadata: Final = json_object(max_bytes=METADATA_MAX_BYTES)


class SubagentLaunchRequest(Checked):
    """The work to delegate, and the bounds to do it within.

    Fields are checked in the order below; the first fault is raised as SubagentLifecycleError.
    """

    checks: ClassVar[Mapping[str, Check]] = {
        "goal": text(max_chars=GOAL_MAX_CHARS),
        "context": optional(text(max_chars=CONTEXT_MAX_CHARS, blank=True)),
        "role": choice(Role),
        "timeout_seconds": optional(seconds),
        "working_directory": optional(relative_path),
        "blocked_tools": _tools,
        "metadata": _metadata,
        "allowed_toolsets": optional(names),
        "parent_session_id": _session,
        "correlation_id": name(max_chars=CORRELATION_ID_MAX_CHARS),
        "agent": _agent,
        "agent_spec": optional(agent_document),
        "model": name(),
        "provider": name(),
        "inputs": optional(json_object(max_bytes=INPUTS_MAX_BYTES)),
        "output_schema": optional(output_schema),
        "max_iterations": optional(count(min_count=1, max_count=COUNT_MAX)),
        "limits": nested(LaunchLimits),
        "budget": nested(Budget),
        "priority": choice(Priority),
        "on_duplicate": choice(OnDuplicate),
        "on_parent_end": choice(OnParentEnd),
        "on_done": nested(OnDone),
        "webhook": nested(Webhook),
    }

    goal: str = Field(repr=False)
    context: str | None = Field(default=None, repr=False)
    role: Role = Role.LEAF
    timeout_seconds: float | None = None  # from launch on, queue time included; None = no deadline
    working_directory: str | None = None  # relative, under the worker's workspace root
    blocked_tools: tuple[str, ...] = ()  # names of tools that the run must not have
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue], repr=False)  # comes back
    allowed_toolsets: tuple[str, ...] | None = None  # None = what the parent has; () = none
    parent_session_id: str | None = None  # if given, it must be the caller's own session
    correlation_id: str | None = None  # unique within the session while the run is kept
    agent: str | None = None  # None = the document's outermost, else the settings' default agent
    agent_spec: Mapping[str, JsonValue] | None = Field(default=None, repr=False)  # agents by value
    model: str | None = None  # None = the agent's, then the settings'
    provider: str | None = None  # None = the agent's, then the settings', then the parent's
    inputs: Mapping[str, JsonValue] | None = Field(default=None, repr=False)  # for the agent's placeholders
    # Of the object that the run ends with: a JSON schema, or a pydantic model class, of which it is taken.
    # None = the agent's, then any text.
    output_schema: Mapping[str, JsonValue] | None = Field(default=None, repr=False)
    max_iterations: int | None = None  # None = the agent's, then the settings'
    limits: LaunchLimits | None = None
    budget: Budget | None = None  # of its subtree; None = none of its own; a root's: the settings'
    priority: Priority = Priority.NORMAL
    on_duplicate: OnDuplicate = OnDuplicate.RAISE
    on_parent_end: OnParentEnd = OnParentEnd.CANCEL
    on_done: OnDone | None = None
    webhook: Webhook | None = None

    @classmethod
    def parse(cls, value: object = None, /, **fields: object) -> SubagentLaunchRequest:
        """The request that a caller means by an object, a mapping or keywords.

        Args:
            value: a request or a mapping of its fields. A request is checked again, for pydantic's
                model_copy() and model_construct() do not.
            fields: the fields as keywords, instead of a value.

        Raises:
            SubagentLifecycleError: names the first field at fault, its limit and the mend.
        """
        if value is None:
            return cls(**cast("dict[str, Any]", fields))
        if fields:
            raise SubagentLifecycleError(
                "is given both as a value and as keywords",
                field="request",
                limit="a request, a mapping, or keywords",
                mend="give all fields in one of the three ways",
            )
        if isinstance(value, SubagentLaunchRequest):
            given = {key: getattr(value, key) for key in cls.model_fields if key in value.model_fields_set}
            return cls(**given)
        if isinstance(value, Mapping):
            return cls(**text_keys(cast("Mapping[object, object]", value)))
        raise type_fault("request", value, "a SubagentLaunchRequest or a mapping of its fields")

    def to_dict(self) -> dict[str, Any]:
        """Every field, as plain JSON values; parse() makes an equal request of it."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """The fields that differ from their defaults, as canonical JSON.

        Defaults are left out so that a release that adds a field does not change what is stored, and
        the digest, of the requests that do not use it.
        """
        return canonical_json(self.model_dump(mode="json", exclude_defaults=True))


def request_digest(request: SubagentLaunchRequest, *, as_json: str | None = None) -> str:
    """SHA-256, in hex, of what the request asks for: equal requests have equal digests.

    `on_duplicate` is left out: it says how to treat a repetition and is no part of the work.

    Args:
        as_json: what request.to_json() gave, if it is in hand.
    """
    if request.on_duplicate is not OnDuplicate.RAISE:
        request = request.model_copy(update={"on_duplicate": OnDuplicate.RAISE})
        as_json = None
    return hashlib.sha256((as_json or request.to_json()).encode()).hexdigest()
