"""Answers made again of what their to_dict() gave, as a client does that reads them from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .errors import SubagentLifecycleError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")


def record_of(kind: type[R], value: object, /, **parts: Callable[[Any], object]) -> R:
    """The record that a mapping describes. What the record has no field for is left out: others may say more.

    Args:
        kind: A dataclass.
        value: Its to_dict().
        parts: How to make those fields that are no plain JSON values; None stays None.

    Raises:
        SubagentLifecycleError: It is no such mapping.
    """
    names = {each.name for each in fields(kind)}

    def make(given: Mapping[str, Any]) -> R:
        found = {name: item for name, item in given.items() if name in names}
        made = {name: parts[name](found[name]) for name in parts if found.get(name) is not None}
        return kind(**{**found, **made})

    return parsed(kind, value, make)


def parsed(kind: type, value: object, make: Callable[[Mapping[str, Any]], T]) -> T:
    """What `make` makes of a mapping.

    Raises:
        SubagentLifecycleError: It cannot; names the kind, and nothing of the value.
    """
    try:
        if isinstance(value, Mapping):
            return make(cast("Mapping[str, Any]", value))
        wrong = f"is of type {type(value).__name__}"
    except SubagentLifecycleError:
        raise  # a part's own fault
    except (LookupError, TypeError, ValueError, AttributeError) as fault:
        wrong = f"cannot be read ({type(fault).__name__})"
    raise SubagentLifecycleError(
        wrong,
        field=kind.__name__,
        limit="what to_dict() of the same release gave",
        mend="pass it on unchanged",
    )
