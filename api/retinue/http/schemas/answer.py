"""What every answer's model has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """The shape of an answer: exactly these members, all of them always there.

    Models of answers describe, and are held to, what the contract's to_dict() gives; the routes send that
    itself, so that no number changes its form on the way.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
