"""A place in the events of a run, kept over streams that break: each begins where the last ended. Pure."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import httpx2

from retinue.client.clock import WaitClock
from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.call import encoded_handle
from retinue.client.over_http.exchange import CONNECT_S, REPEAT_S, json_in, never_left, reason_of
from retinue.client.over_http.problems import is_unknown_run, problem_in, refusal, unavailable, unreadable
from retinue.client.over_http.run_calls import path_of
from retinue.client.over_http.waiting import OUTAGES
from retinue.contract import Event, EventType, SubagentHandle

SILENCE_S: Final = 60.0
"""Longest silence of a stream that is alive: the API sends comments more often."""

HAS_STREAM: Final = 200
"""The status of an answer that is a stream."""

_AGAIN_S: Final = 0.25
_END: Final = "end"
_NOTHING_LEFT: Final = 204
_TYPES: Final = frozenset(map(str, EventType))


class Follower:
    """One follower of a run's tree.

    Args:
        address: Whom to ask.
        handle: The run's; it is over with the run.
        after: The sequence number of the last event known.
    """

    def __init__(self, address: ApiAddress, handle: SubagentHandle, after: int) -> None:
        self._address = address
        self._handle = handle
        self._after = after
        self._clock = WaitClock()
        self._was_answered = False
        self._until: float | None = None  # None = no stream was cut yet
        self._resumes = False
        self.is_over = False

    def request(self) -> dict[str, Any]:
        """What httpx2's `stream` is to be given."""
        headers = {
            **self._address.headers(),
            "Accept": "text/event-stream, application/problem+json",
            "Retinue-Handle": encoded_handle(self._handle),
        }
        if self._resumes:
            headers["Last-Event-ID"] = str(self._after)
        return {
            "method": "GET",
            "url": self._address.url + path_of(self._handle, "events", "stream"),
            "params": {"after": self._after},
            "headers": headers,
            "timeout": httpx2.Timeout(SILENCE_S, connect=CONNECT_S),
        }

    def take(self, message: httpx2.ServerSentEvent) -> Event | None:
        """The event that a message brings; None = it brings none, or none that this release knows.

        Raises:
            SubagentLifecycleError: It is no message of Retinue's.
        """
        self._clock.answered()
        self._was_answered = True
        if message.event == _END:
            self.is_over = True
        if message.event not in _TYPES:
            return None
        try:
            event = Event.from_dict(json.loads(message.data))
        except ValueError:
            raise unreadable(self._address.url) from None
        if event.sequence <= self._after:
            return None
        self._after, self._resumes = event.sequence, True
        self.is_over = event.type is EventType.RUN_FINISHED and event.run_id == self._handle.subagent_id
        return event

    def refused(self, response: httpx2.Response) -> float:
        """What to do where there is no stream: nothing more, for it is over, or ask again.

        Args:
            response: Read to its end.

        Returns:
            Seconds until it may be asked for again.

        Raises:
            SubagentLifecycleError: It is not to be had.
        """
        problem = problem_in(json_in(response.content))
        is_unknown = is_unknown_run(problem, by_handle_alone=self._address.api_key is None)
        if response.status_code == _NOTHING_LEFT or is_unknown:
            self.is_over = True
            return 0.0
        error = refusal(response.status_code, problem, self._address.url)
        if error.code not in OUTAGES:
            raise error
        return self._clock.outage_pause(error)

    def broken(self, error: httpx2.RequestError | None) -> float:
        """Seconds until a stream that broke, or ended before the run did, may be asked for again.

        Args:
            error: Why. None = it ended by itself.

        Raises:
            SubagentLifecycleError: STORE_UNAVAILABLE: it is not to be had, or not any more for too long.
        """
        if error is None:
            return 0.0 if self.is_over else _AGAIN_S
        now = time.monotonic()
        if not self._was_answered and not never_left(error):
            # It was reached, and cut: as with any call, its answer is asked for again for a while.
            self._until = self._until or now + REPEAT_S
            if now <= self._until:
                return _AGAIN_S
        return self._clock.outage_pause(unavailable(self._address.url, reason_of(error)))
