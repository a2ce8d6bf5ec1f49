"""What a model request may take at most: reserved at the boundary of a run that a budget stands above."""

from __future__ import annotations

from typing import Final

from retinue.agents.effective.effective import EffectiveSpec
from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations.budgets import Reservation
from retinue.store.replies import Spent
from retinue.worker.models.estimating import input_tokens_of, output_tokens_of
from retinue.worker.models.prices import setting_of
from retinue.worker.run.asking import model_request
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Finish
from retinue.worker.services import Services

_MORE: Final = 100_000


def reservation(services: Services, run: HeldRun) -> Reservation | None:
    """What to reserve for a run's next request; None = no budget stands above it."""
    if not run.record.is_budgeted:
        return None
    request = model_request(services, run, ())
    input_tokens = input_tokens_of(request, run.measured)
    output_tokens = output_tokens_of(request, services.settings.budget.estimated_output_tokens)
    estimate, place = services.prices.estimate, (request.provider, request.model)
    micro_usd = estimate(*place, input_tokens, output_tokens)
    with_more = estimate(*place, input_tokens + _MORE, output_tokens)
    input_price = 0 if micro_usd is None or with_more is None else with_more - micro_usd
    return Reservation(input_tokens, output_tokens, micro_usd, input_price)


def spent(found: Spent, run: HeldRun) -> Finish:
    """How a run ends that its budget, or one above it, stops."""
    how_far = f"{found.used} of {found.limit} used"
    message = f"a budget is spent: {found.name}, {how_far}, and the next request needs more"
    return Finish(SubagentState.INTERRUPTED, ErrorClassification.BUDGET_EXCEEDED, run.partial, message)


def unpriced(spec: EffectiveSpec, run: HeldRun) -> Finish:
    """How a run ends whose requests nobody can count against a budget in USD."""
    model = spec.model or ""
    message = (
        f"the price of the model {model!r} is not known, and a budget in USD stands above this run. "
        f"To mend: set [{setting_of(model)}] with input= and output= in USD per million tokens"
    )
    return Finish(SubagentState.FAILED, ErrorClassification.AGENT_ERROR, run.partial, message)
