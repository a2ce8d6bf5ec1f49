"""The part of the lifecycle facade that raises budgets; for plain code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from retinue.client.dispatch.sync_dispatch import SyncDispatch
from retinue.contract import (
    Budget,
    BudgetRaise,
    SubagentLifecycleError,
    public_amount,
)
from retinue.contract.budget import CAP_CHECKS
from retinue.store.operations.budgets import NotRaised, Raised, budget_status, raise_budget


class Budgeting:
    """What `SubagentLifecycle` can do about budgets that are spent."""

    _calls: SyncDispatch

    def raise_budget(self, handle: object, **caps: object) -> BudgetRaise:
        """Raises caps of a run's own budget; the runs at and below it that waited for that go on.

        Args:
            handle: Of the run that has the budget: for a tree's, its root.
            caps: What each is to be from now on, in all and not in addition, as in usd=2.50; named and
                written as in a `Budget`. A repeat changes nothing.

        Returns:
            Whether it was accepted, and how the budget stands.

        Raises:
            SubagentLifecycleError: No cap is given, or one that is unknown, wrong, lower than it is, or that
                the budget does not have; or the run has no budget of its own.
        """
        asked = checked_caps(caps)
        target = self._calls.target(handle)
        if target is None:
            return BudgetRaise.unknown(handle)
        connections = self._calls.connections()
        reply = connections.store.run(raise_budget(target.key, asked))
        if isinstance(reply, Raised):
            connections.wake(reply.woken)
        return raise_of(reply, asked)


def checked_caps(caps: Mapping[str, object]) -> dict[str, int]:
    """What a caller wants caps to be, in whole units.

    Raises:
        SubagentLifecycleError: As `Budgeting.raise_budget`.
    """
    unknown = [name for name in caps if name not in CAP_CHECKS]
    if unknown:
        limit = f"one or more of {', '.join(CAP_CHECKS)}"
        raise SubagentLifecycleError(
            "is no cap of a budget", field=unknown[0], limit=limit, mend="give a cap's name"
        )
    return Budget(**cast("dict[str, Any]", dict(caps))).caps


def raise_of(reply: Raised | NotRaised, asked: Mapping[str, int]) -> BudgetRaise:
    """What a raise did.

    Raises:
        SubagentLifecycleError: It would have raised nothing.
    """
    if isinstance(reply, Raised):
        return BudgetRaise(
            accepted=True, budget=budget_status(reply.account, reply.now_ms), woken=len(reply.woken)
        )
    match reply.reason:
        case "TERMINAL":
            return BudgetRaise(accepted=False, already_terminal=True)
        case "UNKNOWN":
            return BudgetRaise.unknown()
        case "NO_BUDGET":
            raise SubagentLifecycleError(
                "the run has no budget of its own",
                field="budget",
                limit="a run that was launched with one",
                mend="raise that of the run above it that has one: status() shows it",
            )
        case "NO_CAP":
            raise SubagentLifecycleError(
                "the run's budget has no such cap, so there is nothing to raise",
                field=reply.name,
                limit="a cap that the budget was launched with",
                mend="leave it out",
            )
        case _:
            present, wanted = (
                public_amount(reply.name, amount) for amount in (reply.present, asked[reply.name])
            )
            raise SubagentLifecycleError(
                f"is {wanted}, lower than it is",
                field=reply.name,
                limit=f"{present} or more: the cap in all, not what is added to it",
                mend="give what it is to be from now on",
            )
