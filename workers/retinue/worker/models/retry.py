"""When a failed model call is tried again, by the class of its error.

The SDK's own retries are off: a retry has to read the cancel mark, stand in the log, and stop in time.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from retinue.agents.agentspec.remote_spec import RetrySpec
from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError
from retinue.worker.network import spec_retry

T = TypeVar("T")

ShouldContinue = Callable[[], Awaitable[bool]]
"""Asked right before each retry; False = the run is under a cancel mark, send nothing more."""

OnRetry = Callable[[ErrorClassification, int, int], Awaitable[None]]
"""Told before each wait: reason, delay in ms, number of the failed attempt (from 1)."""


class RetryAbandonedError(ModelError):
    """`should_continue` said no before a retry; carries the fields of the last failure."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Exponential back-off with full jitter: the nth wait lies between 0 and min(cap, base * 2^(n-1))."""

    base_s: float
    cap_s: float

    def wait_s(self, attempt: int, uniform: Callable[[float, float], float]) -> float:
        """The wait after the given failed attempt (from 1), in seconds."""
        return uniform(0.0, min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, 32)))


DEFAULT_BACK_OFFS: Mapping[ErrorClassification, BackOff] = MappingProxyType(
    {
        ErrorClassification.MODEL_RATE_LIMITED: BackOff(base_s=2.0, cap_s=60.0),
        ErrorClassification.MODEL_UNAVAILABLE: BackOff(base_s=0.5, cap_s=30.0),
    }
)


@dataclass(frozen=True)
class RetryPolicy:
    """Tries a model call until it succeeds, fails for good, or is out of attempts or time.

    Args:
        max_attempts: Tries in all, the first included; 1 = no retry.
        max_elapsed_s: No retry starts later than this after the first try started, however the tries failed
            and whatever wait a server asks for. The default leaves room for one more try after a server was
            silent for 600 s.
        back_offs: Per classification; an error of any other class is never retried, nor is one that says
            `retryable=False`. A server's Retry-After is a lower bound, spread by up to one back-off so that
            the runs that were refused together do not return together.
        spec: An Agent Spec document's policy, in place of `max_attempts` and `back_offs`.
        clock: Monotonic seconds.
        sleep: Waits for the given seconds.
        uniform: A random number between two bounds.
    """

    max_attempts: int = 6
    max_elapsed_s: float = 900.0
    back_offs: Mapping[ErrorClassification, BackOff] = field(default_factory=lambda: DEFAULT_BACK_OFFS)
    spec: RetrySpec | None = None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform

    def under(self, spec: RetrySpec | None) -> "RetryPolicy":
        """The policy for a run whose document brings one; None = this one."""
        return self if spec is None else replace(self, spec=spec)

    async def run(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        admission: AbstractAsyncContextManager[object] | None = None,
        should_continue: ShouldContinue | None = None,
        on_retry: OnRetry | None = None,
    ) -> T:
        """Await `call()` until it answers.

        Args:
            admission: Entered for each try, left before a wait. The time it takes to enter is not counted.

        Raises:
            ModelError: The last failure, once nothing is left to try.
            RetryAbandonedError: `should_continue` answered False.
        """
        started = self.clock()
        attempt = 1
        while True:
            arrived = self.clock()
            try:
                async with admission or nullcontext():
                    started += self.clock() - arrived
                    return await self._once(call)
            except ModelError as error:
                wait_s = self._wait_s(error, attempt, self.clock() - started)
                if wait_s is None:
                    raise
                failure = error
            if on_retry is not None:
                await on_retry(failure.classification, round(wait_s * 1000), attempt)
            await self.sleep(wait_s)
            if should_continue is not None and not await should_continue():
                raise _abandoned(failure)
            attempt += 1

    async def _once(self, call: Callable[[], Awaitable[T]]) -> T:
        limit_s = self.spec.request_timeout_s if self.spec else None
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await call()
        except TimeoutError:
            if not limit.expired():
                raise
        raise ModelError(
            f"no whole answer came within the {limit_s:g} s that the document's retry_policy gives a request",
            classification=ErrorClassification.MODEL_UNAVAILABLE,
            retryable=True,
        )

    def _wait_s(self, error: ModelError, attempt: int, elapsed_s: float) -> float | None:
        if self.spec is not None:
            return self._spec_wait_s(self.spec, error, attempt, elapsed_s)
        back_off = self.back_offs.get(error.classification)
        if not error.retryable or back_off is None or attempt >= self.max_attempts:
            return None
        wait_s = back_off.wait_s(attempt, self.uniform) + (error.retry_after_s or 0.0)
        return wait_s if elapsed_s + wait_s <= self.max_elapsed_s else None

    def _spec_wait_s(
        self, spec: RetrySpec, error: ModelError, attempt: int, elapsed_s: float
    ) -> float | None:
        said = f"{error.code or ''} {error.detail or ''}"
        if attempt > spec.max_retries or not _may_mend(error):
            return None
        if not spec_retry.recoverable(spec, error.status, said):
            return None
        wait_s = max(spec_retry.wait_s(spec, attempt, error.status, self.uniform), error.retry_after_s or 0.0)
        return wait_s if elapsed_s + wait_s <= self.max_elapsed_s else None


def _may_mend(error: ModelError) -> bool:
    """Whether the same request may ever be answered; a document may list rejections that pass."""
    if error.retryable:
        return True
    # A 429 that is no matter of time is a spent quota.
    return error.classification is ErrorClassification.MODEL_REJECTED and error.status not in (None, 429)


def _abandoned(failure: ModelError) -> RetryAbandonedError:
    return RetryAbandonedError(
        f"not tried again, the run is to stop ({failure})",
        classification=failure.classification,
        retry_after_s=failure.retry_after_s,
        status=failure.status,
        code=failure.code,
        detail=failure.detail,
    )
