"""Waiting for a place at a provider with limits, before each request that is sent to it.

Who waits here waits like one whose request is under way: its run stays held, and a cancel, an interrupt, its
deadline or a loss ends the wait. It sleeps until the store tells that it is first, or for as long as the
store said.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Final

from retinue.store import keys
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.operations.provider_places import (
    RENEW_EVERY_S,
    ProviderLimits,
    acquire_place,
    release_place,
    renew_place,
)
from retinue.worker.models import ModelError, ModelRequest, ModelUsage
from retinue.worker.models.estimating import input_tokens_of, output_tokens_of
from retinue.worker.process.patience import PatientStore
from retinue.worker.process.slots import Slots
from retinue.worker.run.held import HeldRun

LEND_AFTER_S: Final = 1.0
"""How long a run waits in its slot before it lends it, in seconds."""

MayGoOn = Callable[[], Awaitable[bool]]


class WaitAbandonedError(ModelError):
    """Nothing was sent: the run, or its process, is to stop."""


class Admissions:
    """The process's requests to providers with limits.

    Args:
        store: Where the limits are kept.
        subscriptions: Tell who is first.
        process: The process's uuid.
        slots: Runs that wait long lend theirs, so that runs of other providers go on.
        most_lent: How many slots may be lent by runs that wait here.
        output_tokens: That an answer may take where nothing limits it.
        closed_max_s: The longest that a provider's Retry-After keeps everybody from it, in seconds.
        draining: Set once the process is to stop; then tell by `wake`.
    """

    def __init__(
        self,
        store: PatientStore,
        subscriptions: AsyncSubscriptions,
        process: str,
        slots: Slots,
        *,
        most_lent: int,
        output_tokens: int,
        closed_max_s: float,
        draining: asyncio.Event,
    ) -> None:
        self.store = store
        self.slots = slots
        self.closed_max_s = closed_max_s
        self.draining = draining
        self.lent = 0
        self.most_lent = most_lent
        self._subscriptions = subscriptions
        self._process = process
        self._output_tokens = output_tokens
        self._numbers = count(1)
        self._waiting: set[asyncio.Event] = set()
        self._work: set[asyncio.Task[None]] = set()

    def of(self, request: ModelRequest, run: HeldRun, may_go_on: MayGoOn) -> Admission | None:
        """What to enter for each try at a request; None = its provider has no limits.

        Args:
            may_go_on: Asked after a wait: whether the request is still to be sent.
        """
        limits = request.provider.limits
        if limits is None:
            return None
        tokens = 0
        if limits.tokens_per_minute is not None:
            tokens = input_tokens_of(request, run.measured) + output_tokens_of(request, self._output_tokens)
        return Admission(self, request.provider.name, limits, run, tokens, may_go_on)

    def new_place(self, run: HeldRun) -> str:
        """A name that no other request has, of this or any process."""
        return f"{self._process}:{run.fence.token}:{next(self._numbers)}"

    async def until_told(self, place: str, ask: Callable[[], Awaitable[float]]) -> bool:
        """Asks until the answer is 0: in so many seconds as it says, or sooner if the store tells.

        Returns:
            Whether there was a wait at all.

        Raises:
            WaitAbandonedError: The process is to stop.
        """
        told, waited = asyncio.Event(), False
        self._waiting.add(told)
        try:
            # Listening from before the first ask: what is told after that is not missed.
            with self._subscriptions.hook([(keys.process_channel(self._process), place)], told):
                while wait_s := await ask():
                    waited = True
                    with suppress(TimeoutError):
                        async with asyncio.timeout(wait_s * random.uniform(1.0, 1.05)):
                            await told.wait()
                    told.clear()
                    if self.draining.is_set():
                        raise WaitAbandonedError("not sent: the worker stops")
            return waited
        finally:
            self._waiting.discard(told)

    def wake(self) -> None:
        """Has everybody who waits look at `draining`."""
        for told in self._waiting:
            told.set()

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something that no run need wait for."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    async def close(self, within_s: float) -> None:
        """Ends what is still done aside.

        Args:
            within_s: How long that may take, in seconds.
        """
        if self._work:
            await asyncio.wait(set(self._work), timeout=within_s)
        for task in self._work:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # a place that could not be given back comes free by itself


class Admission:
    """A place for each try at one request; made by `Admissions.of`.

    Args:
        admissions: The process's.
        provider: Its name.
        limits: Its.
        run: Whose request it is.
        tokens: That the request may take.
        may_go_on: Asked after a wait.
    """

    def __init__(
        self,
        admissions: Admissions,
        provider: str,
        limits: ProviderLimits,
        run: HeldRun,
        tokens: int,
        may_go_on: MayGoOn,
    ) -> None:
        self._admissions = admissions
        self._provider = provider
        self._limits = limits
        self._run = run
        self._tokens = tokens
        self._may_go_on = may_go_on
        self._place = ""
        self._used: int | None = None
        self._waits_since = 0.0
        self._lends = False
        self._renewal: asyncio.TimerHandle | None = None

    def count(self, usage: ModelUsage | None) -> None:
        """Notes what the try took; None = the server did not say, and the estimate stands."""
        if usage is not None:
            self._used = usage.input_tokens + usage.output_tokens

    async def __aenter__(self) -> None:
        """Waits for a place.

        Raises:
            WaitAbandonedError: The request is not to be sent any more.
        """
        self._place, self._used = self._admissions.new_place(self._run), None
        self._waits_since = asyncio.get_running_loop().time()
        try:
            waited = await self._admissions.until_told(self._place, self._ask)
            if waited and not await self._may_go_on():
                raise WaitAbandonedError("not sent: the run is to stop")
        except BaseException:
            self._leave(unused=self._tokens)
            raise
        finally:
            self._take_back()
        self._renew_later()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives the place back, and tells everybody how long the provider wants to be left alone."""
        if self._renewal is not None:
            self._renewal.cancel()
        closed_s = 0.0
        if isinstance(error, ModelError):
            if error.retryable and error.retry_after_s:
                closed_s = min(error.retry_after_s, self._admissions.closed_max_s)
            if error.status is not None:
                self._used = 0  # an answer of its own, which the model had no part in
        self._leave(unused=0 if self._used is None else self._tokens - self._used, closed_s=closed_s)

    async def _ask(self) -> float:
        """Seconds to wait, 0 = there is a place."""
        call = acquire_place(self._provider, self._place, self._limits, tokens=self._tokens)
        wait_s = await self._admissions.store.run(call) / 1000
        lends_in_s = LEND_AFTER_S - (asyncio.get_running_loop().time() - self._waits_since)
        if wait_s and lends_in_s <= 0:
            self._lend()
        return min(wait_s, lends_in_s) if lends_in_s > 0 else wait_s

    def _lend(self) -> None:
        admissions = self._admissions
        if not self._lends and admissions.lent < admissions.most_lent:
            self._lends = True
            admissions.lent += 1
            self._run.begin_wait(admissions.slots)

    def _take_back(self) -> None:
        if self._lends:
            self._lends = False
            self._admissions.lent -= 1
            self._run.end_wait(self._admissions.slots)

    def _renew_later(self) -> None:
        self._renewal = asyncio.get_running_loop().call_later(RENEW_EVERY_S, self._renew)

    def _renew(self) -> None:
        self._admissions.aside(self._admissions.store.run(renew_place(self._provider, self._place)))
        self._renew_later()

    def _leave(self, *, unused: int, closed_s: float = 0.0) -> None:
        call = release_place(
            self._provider,
            self._place,
            self._limits,
            unused_tokens=unused,
            closed_ms=round(closed_s * 1000),
        )
        self._admissions.aside(self._admissions.store.run(call))
