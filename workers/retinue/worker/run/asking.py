"""One model request of a run: what is sent, when it is tried again, and what stops it in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from retinue.contract import ErrorClassification, SubagentState
from retinue.store.operations import noting
from retinue.store.replies import Stale
from retinue.worker.models import (
    ModelError,
    ModelRequest,
    ModelResponse,
    RetryAbandonedError,
    ToolSchema,
)
from retinue.worker.models.admission import WaitAbandonedError
from retinue.worker.process.hints import may_ask
from retinue.worker.run.deadline import out_of_time
from retinue.worker.run.deltas import DeltaLine
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish
from retinue.worker.services import Services


class Aborted:
    """The request was dropped because the run may have been told to stop: the boundary decides."""


async def ask(
    services: Services, run: HeldRun, iteration: int, steers: Sequence[str]
) -> ModelResponse | Finish | Aborted | Fenced:
    """Asks the model, with retries, until an answer, a lasting failure, the deadline or an alarm.

    Args:
        iteration: Of the boundary that was passed.
        steers: Entries of the steers that this request shows for the first time.
    """
    request = model_request(services, run, steers)

    async def go_on() -> bool:
        if run.is_lost or services.draining.is_set():
            return False
        return await may_ask(services.store, run.key)

    async def retried(reason: ErrorClassification, delay_ms: int, _attempt: int) -> None:
        note = noting.note_retry(
            run.key, run.fence, iteration=iteration, reason=reason.value, delay_ms=delay_ms
        )
        if isinstance(await services.store.run(note), Stale):
            run.lose()

    admission = services.admissions.of(request, run, go_on)

    async def complete() -> ModelResponse:
        with DeltaLine(services.store.store, run, iteration) as line:
            response = await services.model.complete(request, on_delta=line.feed)
            await line.flush()
        if admission is not None:
            admission.count(response.usage)
        return response

    call = services.retries.under(run.spec.llm.retry if run.spec.llm else None).run(
        complete, admission=admission, should_continue=go_on, on_retry=retried
    )
    asked = asyncio.ensure_future(call)
    hushed = asyncio.ensure_future(run.hush.wait())
    try:
        while True:
            await asyncio.wait({asked, hushed}, timeout=run.seconds_left, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            if run.is_lost:
                return Fenced()
            if hushed.done():
                # Lowered before the mark is read: one that stands is told of again, one that was lost is not.
                run.alarm.clear()
                run.hush.clear()
                return Aborted()
            if await out_of_time(services.store, run) and not asked.done():
                break
        return Finish(
            SubagentState.INTERRUPTED,
            ErrorClassification.DEADLINE_EXCEEDED,
            run.partial,
            "the deadline passed during a model request",
        )
    except (RetryAbandonedError, WaitAbandonedError):
        return Aborted()
    except ModelError as fault:
        return Finish(SubagentState.FAILED, fault.classification, run.partial, fault.detail or str(fault))
    finally:
        for task in (asked, hushed):
            task.cancel()
        # The connection is closed before the run goes on: nothing of a dropped request is left behind.
        await asyncio.gather(asked, hushed, return_exceptions=True)


def model_request(services: Services, run: HeldRun, steers: Sequence[str]) -> ModelRequest:
    """A run's next request.

    Args:
        steers: Entries of the steers that it shows for the first time.
    """
    spec, grant = run.spec, run.grant
    own = [
        ToolSchema(tool.api_name, tool.description, tool.parameters)
        for tool in spec.tools
        if grant.allows(tool.name, tool.toolset)
    ]
    given = [
        ToolSchema(tool.name, tool.description, tool.parameters) for tool in spec.built_in_tools_within(grant)
    ]
    return ModelRequest(
        provider=services.provider(spec),
        model=spec.model or "",
        system=spec.instructions,
        entries=(*run.thread, *steers),
        tools=(*own, *given),
        params=spec.params,
    )
