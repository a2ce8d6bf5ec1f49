"""Budgets as the store keeps them: what a launch writes, what a request reserves, how to raise one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from retinue.contract import Budget, BudgetCap, BudgetStatus, OnSpent, public_amount
from retinue.store.call import RunKey, ScriptCall, count_or_none, mapping, on_run, text, unexpected
from retinue.store.record import WakeUp, parse_wake_up

_CAPS: Final = {
    "input_tokens": "ci",
    "output_tokens": "co",
    "tokens": "ct",
    "usd": "cu",
    "tool_calls": "cc",
    "wall_seconds": "cw",
}
"""The field of each cap in a run's account."""
_KINDS: Final = {"input_tokens": "i", "output_tokens": "o", "tokens": "io", "usd": "u", "tool_calls": "c"}
"""What counts for each cap: the letters of used (u.) and held (h.)."""
_NAMES: Final = {field: name for name, field in _CAPS.items()}


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a model request may take at most.

    Args:
        input_tokens: Of all that the worker knows of the request; what joins its thread at the boundary is
            added there.
        output_tokens: Of its answer.
        micro_usd: Of both; None = the model's price is not known.
        input_price: Micro-USD of 100,000 input tokens more.
    """

    input_tokens: int
    output_tokens: int
    micro_usd: int | None
    input_price: int

    def argv(self) -> tuple[int | str, ...]:
        return self.input_tokens, self.output_tokens, count_or_none(self.micro_usd), self.input_price


NOTHING_RESERVED: Final = ("", "", "", "")
"""The arguments of a boundary that no budget stands above."""


def account_of(budget: Budget | None) -> str:
    """What a launch writes into a run's account; "" = it has none."""
    if budget is None:
        return ""
    caps = [f"{_CAPS[name]}={whole}" for name, whole in budget.caps.items()]
    return ",".join([*caps, f"m={budget.on_spent.value[0]}"])


def budget_status(account: Mapping[str, str], now_ms: int) -> BudgetStatus | None:
    """How the budget of an account stands; None = it is none.

    Args:
        account: Its fields.
        now_ms: The server's clock.
    """
    if "m" not in account:
        return None
    caps = {name: _cap(account, name, now_ms) for name, field in _CAPS.items() if field in account}
    on_spent = OnSpent.STOP if account["m"] == "s" else OnSpent.PAUSE
    return BudgetStatus(caps, on_spent)


def _cap(account: Mapping[str, str], name: str, now_ms: int) -> BudgetCap:
    limit, held = int(account[_CAPS[name]]), 0
    if name == "wall_seconds":
        used = max(0, now_ms - int(account["cr"]))
    else:
        used = sum(int(account.get("u" + kind, 0)) for kind in _KINDS[name])
        held = sum(int(account.get("h" + kind, 0)) for kind in _KINDS[name])
    amounts = (limit, used, held, max(0, limit - used - held))
    return BudgetCap(*(public_amount(name, amount) for amount in amounts))


@dataclass(frozen=True, slots=True)
class Raised:
    """The caps are as asked.

    Args:
        account: Its fields now.
        woken: Wake-ups of the runs that go on.
        now_ms: The server's clock.
    """

    account: Mapping[str, str]
    woken: tuple[WakeUp, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class NotRaised:
    """Nothing was changed: UNKNOWN, TERMINAL, NO_BUDGET, NO_CAP (`name`), LOWER (`name`, `present`).

    Args:
        present: The cap as it is, in whole units.
    """

    reason: str
    name: str = ""
    present: int = 0


def raise_budget(run: RunKey, caps: Mapping[str, int]) -> ScriptCall[Raised | NotRaised]:
    """Raises caps of a run's own budget; a repeat changes nothing.

    Args:
        caps: What each is to be, by name, in whole units.
    """

    def parse(reply: Any) -> Raised | NotRaised:
        match text(reply[0]):
            case "RAISED":
                return Raised(mapping(reply[1]), woken_of(run, reply[2]), int(reply[3]))
            case "UNKNOWN" | "TERMINAL" | "NO_BUDGET" as reason:
                return NotRaised(reason)
            case "NO_CAP":
                return NotRaised("NO_CAP", _NAMES[text(reply[1])])
            case "LOWER":
                return NotRaised("LOWER", _NAMES[text(reply[1])], int(reply[2]))
            case _:
                raise unexpected("raise_budget", reply)

    words = [word for name, whole in caps.items() for word in (_CAPS[name], whole)]
    return on_run("raise_budget", run, words, parse)


def woken_of(run: RunKey, reply: Any) -> tuple[WakeUp, ...]:
    """The wake-ups of runs that go on because a budget has room again; they belong to the same tree."""
    return tuple(wake for raw in reply or () if (wake := parse_wake_up(run.tenant, raw)))
