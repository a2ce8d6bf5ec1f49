"""Trying again when an answer was lost, and what to say when none comes. Pure: both faces share it."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import httpx2

from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.call import Call, Known
from retinue.client.over_http.problems import (
    IN_FLIGHT,
    is_unknown_run,
    problem_in,
    refusal,
    unavailable,
    unknown_launch,
    unreadable,
)
from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.store.connections.backoff import Backoff

T = TypeVar("T")

CONNECT_S: Final = 3.0
"""Longest time to reach the API; what cannot be reached is reported no later."""

REPLY_S: Final = 5.0
"""Longest silence of the API within one call: longer than it grants the store, so that it can say so."""

REPEAT_S: Final = 3.0
"""How long a lost answer is asked for again."""

IN_FLIGHT_S: Final = 10.0
"""The same while the API says that it is at work: what died over it is waited for, for 5 s."""

_FIRST_DELAY_S: Final = 0.05
_LONGEST_DELAY_S: Final = 0.5
_BETWEEN: Final = frozenset({502, 503, 504})
"""What something between here and the API says while there is no API behind it."""


@dataclass(frozen=True, slots=True)
class Again:
    """The same request is to be sent again, after so many seconds."""

    seconds: float


class Exchange(Generic[T]):
    """The attempts at one call.

    A request that never left is not repeated, so that an API that is down is reported at once. One whose
    answer was lost is, under the same Idempotency-Key, for that tells what became of it.

    Args:
        address: Whom to ask.
        call: What.
    """

    def __init__(self, address: ApiAddress, call: Call[T]) -> None:
        self._address = address
        self._call = call
        self._headers = {**call.headers(), **address.headers()}
        if call.mutates:
            self._headers["Idempotency-Key"] = secrets.token_hex(16)
        self._content = call.content()
        self._backoff = Backoff(_FIRST_DELAY_S, _LONGEST_DELAY_S)
        self._failed_at: float | None = None  # when an attempt first did; None = none has
        self._was_sent = False

    def request(self) -> dict[str, Any]:
        """What httpx2's `request` is to be given."""
        return {
            "method": self._call.method,
            "url": self._address.url + self._call.path,
            "params": dict(self._call.query) or None,
            "headers": self._headers,
            "content": self._content,
            "timeout": httpx2.Timeout(REPLY_S + self._call.work_s, connect=CONNECT_S),
        }

    def failed(self, error: httpx2.RequestError) -> Again:
        """What to do after an attempt without an answer.

        Raises:
            SubagentLifecycleError: STORE_UNAVAILABLE or LAUNCH_UNKNOWN: nothing more.
        """
        self._was_sent = self._was_sent or not never_left(error)
        # An API that let a whole answer's time run out is not asked twice.
        hopeless = isinstance(error, httpx2.TimeoutException) or not self._was_sent
        return self._again(reason_of(error), hopeless=hopeless)

    def answered(self, response: httpx2.Response) -> Known[T] | Again:
        """What the API's answer means: the call's own, or that it is to be asked again.

        Raises:
            SubagentLifecycleError: It is a refusal.
        """
        status, body = response.status_code, json_in(response.content)
        if response.is_success:
            return self._parsed(body)
        problem = problem_in(body)
        code = problem.get("code")
        by_handle_alone = self._address.api_key is None and self._call.handle is not None
        if is_unknown_run(problem, by_handle_alone=by_handle_alone):
            found = self._of_unknown_run()
            if found is not None:
                return found
        if code == IN_FLIGHT or (not problem and status in _BETWEEN):
            self._was_sent = True
            return self._again(f"HTTP {status}", within_s=IN_FLIGHT_S if problem else REPEAT_S)
        if code == ErrorCode.RATE_LIMITED:
            return self._later(response, refusal(status, problem, self._address.url))
        error = refusal(status, problem, self._address.url)
        if self._call.launches and error.code is ErrorCode.STORE_UNAVAILABLE and code != error.code:
            raise unknown_launch(self._address.url, error.message)
        raise error

    def _of_unknown_run(self) -> Known[T] | None:
        """What it means that the API knows no such run, or not any more; None = a plain refusal."""
        call = self._call
        if self._was_sent and call.gone is not None:
            return Known(call.gone())
        if self._was_sent and call.launches:
            raise unknown_launch(self._address.url, "whatever it was to start from is gone since")
        return None if call.unknown is None else Known(call.unknown())

    def _parsed(self, body: object) -> Known[T]:
        try:
            return Known(self._call.parse(body))
        except (LookupError, TypeError, ValueError, AttributeError):
            pass
        if self._call.launches:
            raise unknown_launch(self._address.url, "its answer cannot be read")
        raise unreadable(self._address.url)

    def _again(self, why: str, *, hopeless: bool = False, within_s: float = REPEAT_S) -> Again:
        pause_s = self._backoff.next_s()
        if not hopeless and self._may_pause(pause_s, within_s):
            return Again(pause_s)
        if self._call.launches and self._was_sent:
            raise unknown_launch(self._address.url, why)
        raise unavailable(self._address.url, why)

    def _later(self, response: httpx2.Response, error: SubagentLifecycleError) -> Again:
        """Waits until the key may ask again, if that is soon: nothing was done."""
        pause_s = _retry_after(response.headers)
        if not self._may_pause(pause_s, REPEAT_S):
            raise error
        return Again(pause_s)

    def _may_pause(self, pause_s: float, within_s: float) -> bool:
        now = time.monotonic()
        self._failed_at = self._failed_at or now
        return now + pause_s <= self._failed_at + within_s


def never_left(error: httpx2.RequestError) -> bool:
    """Whether the API was not even reached."""
    kinds = httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.UnsupportedProtocol
    return isinstance(error, kinds)


def reason_of(error: httpx2.RequestError) -> str:
    """Why there is no answer, without what was sent."""
    if isinstance(error, httpx2.ConnectTimeout):
        return f"no connection within {CONNECT_S:g} s"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get("Retry-After", "1")))
    except ValueError:
        return 1.0


def json_in(content: bytes) -> object:
    """What an answer holds; None where it is no JSON."""
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        return None
