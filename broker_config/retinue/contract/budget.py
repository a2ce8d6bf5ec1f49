"""Budgets: what a run and all below it may use, and how much of that is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from pydantic import model_validator

from .checked import Checked
from .checks import Check, choice, count, optional, seconds, type_fault
from .errors import SubagentLifecycleError
from .limits import COUNT_MAX, TOKENS_MAX, USD_MAX
from .records import parsed, record_of

_MICRO: Final = 1_000_000
_MILLI: Final = 1_000


class OnSpent(StrEnum):
    """What becomes of a run whose next request its budget, or one above it, does not allow any more."""

    PAUSE = "pause"  # it waits, away from the worker, until the budget is raised
    STOP = "stop"  # it ends INTERRUPTED, with its last text


def usd(field: str, value: object) -> float:
    """A positive amount of USD, in whole millionths: a number, a Decimal, or a text such as "2.50"."""
    limit = f"more than 0 and at most {USD_MAX:,} USD, in whole millionths"
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise type_fault(field, value, "a number, a Decimal or a text such as '2.50'")
    try:
        micro = Decimal(str(value).strip()) * _MICRO
    except (ArithmeticError, ValueError):  # ValueError: an int of thousands of digits has no text
        micro = Decimal("NaN")
    if not micro.is_finite() or not 0 < micro <= USD_MAX * _MICRO or micro != micro.to_integral_value():
        raise SubagentLifecycleError(
            "is no such amount", field=field, limit=limit, mend="give an amount such as 2.50"
        )
    return int(micro) / _MICRO


_tokens: Final = optional(count(min_count=1, max_count=TOKENS_MAX))

CAP_CHECKS: Final[Mapping[str, Check]] = {
    "input_tokens": _tokens,
    "output_tokens": _tokens,
    "tokens": _tokens,
    "usd": optional(usd),
    "tool_calls": optional(count(min_count=0, max_count=COUNT_MAX)),
    "wall_seconds": optional(seconds),
}
"""Every cap of a budget by name, with its check."""


class Budget(Checked):
    """What a run and all runs below it may use together. None = no such cap; at least one is set.

    Below a run with a budget, another one only tightens it.
    """

    checks: ClassVar[Mapping[str, Check]] = {**CAP_CHECKS, "on_spent": choice(OnSpent)}

    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None  # input and output together
    usd: float | None = None  # also a Decimal or a text such as "2.50"; in whole millionths
    tool_calls: int | None = None  # one too many is answered with a refusal, and not run
    wall_seconds: float | None = None  # from the run's launch on
    on_spent: OnSpent = OnSpent.PAUSE

    @model_validator(mode="after")
    def _caps_something(self) -> Self:
        if not self.caps:
            raise SubagentLifecycleError(
                "caps nothing",
                field="budget",
                limit=f"one or more of {', '.join(CAP_CHECKS)}",
                mend="set one, as in budget={'usd': 2.50}, or leave the budget out",
            )
        return self

    @property
    def caps(self) -> dict[str, int]:
        """The caps that are set, by name, in whole units: tokens, micro-USD, calls, milliseconds."""
        given = {name: getattr(self, name) for name in CAP_CHECKS}
        return {name: whole_units(name, value) for name, value in given.items() if value is not None}


def whole_units(name: str, value: float) -> int:
    """An amount as it is counted: money in micro-USD, time in milliseconds, the rest as it is."""
    return max(1, round(value * _scale(name))) if _scale(name) > 1 else int(value)


def public_amount(name: str, whole: int) -> float:
    """An amount as it is told: USD, seconds, tokens or calls."""
    return whole / _scale(name) if _scale(name) > 1 else whole


def _scale(name: str) -> int:
    return {"usd": _MICRO, "wall_seconds": _MILLI}.get(name, 1)


@dataclass(frozen=True, slots=True)
class BudgetCap:
    """How one cap of a budget stands, in tokens, USD, calls or seconds.

    Args:
        limit: The cap.
        used: By the run and all below it, so far.
        held: Reserved for model requests that are under way.
        left: What a new request may take; never below 0.
    """

    limit: float
    used: float
    held: float
    left: float

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values."""
        return {"limit": self.limit, "used": self.used, "held": self.held, "left": self.left}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> BudgetCap:
        """The cap that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """
        return record_of(cls, value)


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """How a run's own budget stands.

    Args:
        caps: Those that are set, by name.
        on_spent: What becomes of a run once it is spent.
    """

    caps: Mapping[str, BudgetCap]
    on_spent: OnSpent

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: each cap by its name, and `on_spent`."""
        return {**{name: cap.to_dict() for name, cap in self.caps.items()}, "on_spent": self.on_spent.value}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> BudgetStatus:
        """The status that to_dict() described.

        Raises:
            SubagentLifecycleError: It is none.
        """

        def make(given: Mapping[str, Any]) -> BudgetStatus:
            caps = {name: BudgetCap.from_dict(given[name]) for name in CAP_CHECKS if name in given}
            return cls(caps, OnSpent(given["on_spent"]))

        return parsed(cls, value, make)
