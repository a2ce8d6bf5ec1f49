"""Dead letters: what is kept of a run that was given up because its processes were lost again and again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .canonical import canonical_json
from .classification import ErrorClassification
from .records import parsed, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A run that no worker could go on with, kept for a week, beyond the run's own time."""

    run_id: str
    session_id: str
    agent: str
    error_classification: ErrorClassification  # WORKER_LOST, or INTERNAL_ERROR where workers disowned it
    losses: int  # processes that were lost while the run's own code ran
    iteration: int  # the last one with a recorded response; 0 = none
    created_at: float  # epoch seconds of the launch
    ended_at: float  # epoch seconds
    root_id: str  # its own id for a root
    parent_id: str | None  # None = a root, which can be replayed
    # As stored, or what to_dict() told of it; None in a list.
    launch_json: str | None = field(default=None, repr=False, compare=False)

    @property
    def request(self) -> dict[str, Any] | None:
        """What was asked for, as plain JSON values; None in a list."""
        return None if self.launch_json is None else json.loads(self.launch_json)["request"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "agent": self.agent,
            "error_classification": self.error_classification.value,
            "losses": self.losses,
            "iteration": self.iteration,
            "created_at": self.created_at,
            "ended_at": self.ended_at,
            "root_id": self.root_id,
            "parent_id": self.parent_id,
            "request": self.request,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> DeadLetter:
        """The letter that to_dict() described, with its request, if that was told.

        Raises:
            SubagentLifecycleError: It is none.
        """

        def make(given: Mapping[str, Any]) -> DeadLetter:
            request = given.get("request")
            launch_json = None if request is None else canonical_json({"request": request})
            return record_of(
                cls, {**given, "launch_json": launch_json}, error_classification=ErrorClassification
            )

        return parsed(cls, value, make)
