"""Handles as those see them who may only read: a handle's capability would let them write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from retinue.http.credentials import Caller
from retinue.store.operations.api_keys import Scope

WITHHELD: Final = "withheld"
"""In place of a capability. With a key beside it, such a handle is worth what the run's id is."""


def as_seen_by(caller: Caller, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that may bear a handle, as its caller may see it."""
    handle = answer["handle"]
    if handle is None or caller.may(Scope.WRITE):
        return answer
    return {**answer, "handle": {**handle, "capability": WITHHELD}}


def is_withheld(handle: object) -> bool:
    """Whether a handle, or the mapping of its fields, was given to somebody who may only read."""
    fields: object = getattr(handle, "to_dict", lambda: handle)()
    return isinstance(fields, Mapping) and cast("Mapping[str, object]", fields).get("capability") == WITHHELD
