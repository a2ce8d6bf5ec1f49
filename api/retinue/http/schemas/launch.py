"""The bodies that start runs. Their fields and checks are the contract's own, so that they cannot differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from pydantic import ConfigDict, Field, JsonValue

from retinue.client.launching.requests import request_named
from retinue.contract import GOAL_MAX_CHARS, SubagentLaunchRequest, validate_session
from retinue.contract.checked import Checked
from retinue.contract.checks import Check, optional, text, type_fault

BATCH_MAX: Final = 100
"""Most runs of one launch."""


def _session(field: str, value: object) -> str:
    return validate_session(value, field=field)


def _requests(field: str, value: object) -> tuple[SubagentLaunchRequest, ...]:
    if not isinstance(value, list):
        raise type_fault(field, value, f"a list of 1 to {BATCH_MAX} requests")
    given = cast("list[object]", value)
    parsed: list[SubagentLaunchRequest] = []
    for at, item in enumerate(given):
        with request_named(at, len(given)):
            parsed.append(SubagentLaunchRequest.parse(item))
    return tuple(parsed)


class LaunchBody(SubagentLaunchRequest):
    """The work to delegate, the bounds to do it within, and the session that will own the run.

    An agent is named by `agent`, or given by value as the Agent Spec document `agent_spec`.
    """

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {**SubagentLaunchRequest.checks, "session_id": _session}

    session_id: str


class LaunchManyBody(Checked):
    """Several runs of one session: all are launched, or none."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {"session_id": _session, "requests": _requests}

    session_id: str
    requests: tuple[SubagentLaunchRequest, ...]


class ContinueBody(Checked):
    """The next turn of a conversation. What is left out is as it was in the turn before."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {
        "text": text(max_chars=GOAL_MAX_CHARS),
        "metadata": optional(SubagentLaunchRequest.checks["metadata"]),
        **{
            name: SubagentLaunchRequest.checks[name]
            for name in ("correlation_id", "timeout_seconds", "inputs")
        },
    }

    text: str = Field(repr=False)
    correlation_id: str | None = None
    timeout_seconds: float | None = None
    metadata: Mapping[str, JsonValue] | None = Field(default=None, repr=False)
    inputs: Mapping[str, JsonValue] | None = Field(default=None, repr=False)

    @property
    def changes(self) -> dict[str, Any]:
        """What differs from the turn before, as `continue_run` takes it."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "text"}
