"""What the server was asked, and how it went: the part of a scripted server that tests read."""

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from retinue.testing.request import ScriptedRequest


@dataclass(slots=True)
class RecordedRequest:
    """One request to a model endpoint; the last fields are filled in while it is answered.

    Attributes:
        number: place in the order of arrival, from 0.
        agent: name of the script that answered; None = no script did.
        turn: index of the turn that the script played.
        fault: the fault that struck: the code of an error reply, else its class name.
        problem: why no script could answer.
        started_at: epoch seconds.
        finished_at: epoch seconds; None while the answer is on its way.
        status: HTTP status; None if no status line was sent.
        disconnected: the client left before the end of the answer.
        request: the request as the scripts saw it; None if it could not be read, or the server
            forgets bodies.
    """

    agent: str | None
    api: str
    model: str | None = None
    stream: bool = False
    turn: int | None = None
    number: int = -1
    fault: str | None = None
    problem: str | None = None
    started_at: float = 0.0
    finished_at: float | None = None
    status: int | None = None
    disconnected: bool = False
    request: ScriptedRequest | None = field(default=None, repr=False)

    def to_dict(self, *, with_body: bool = False) -> dict[str, Any]:
        """The record as JSON data; headers, which hold the key, stay out."""
        shown = {name: getattr(self, name) for name in self.__slots__ if name != "request"}
        if with_body and self.request is not None:
            shown["body"] = self.request.body
        return shown


class RequestRecord:
    """All requests of a server. Written on the server's loop, read from any OS thread."""

    def __init__(self, *, keep_bodies: bool = True) -> None:
        self._keep_bodies = keep_bodies
        self._lock = threading.Condition()
        self._numbers = itertools.count()
        self._requests: list[RecordedRequest] = []
        self._in_flight: Counter[str | None] = Counter()
        self._peak: Counter[str | None] = Counter()
        self._flying = 0
        self._highest = 0
        self._listeners: list[Callable[[], None]] = []

    def begin(self, recorded: RecordedRequest) -> None:
        """Add a request that has arrived; gives it its number and time."""
        with self._lock:
            recorded.number = next(self._numbers)
            recorded.started_at = time.time()
            if not self._keep_bodies:
                recorded.request = None
            self._requests.append(recorded)
            self._in_flight[recorded.agent] += 1
            self._peak[recorded.agent] = max(self._peak[recorded.agent], self._in_flight[recorded.agent])
            self._flying += 1
            self._highest = max(self._highest, self._flying)
            self._tell()

    def end(self, recorded: RecordedRequest) -> None:
        """Close a request that was answered or left."""
        with self._lock:
            recorded.finished_at = time.time()
            self._in_flight[recorded.agent] -= 1
            self._flying -= 1
            self._tell()

    def all(self, agent: str | None = None) -> tuple[RecordedRequest, ...]:
        """The requests in order of arrival, of one agent or of all."""
        with self._lock:
            return tuple(r for r in self._requests if agent is None or r.agent == agent)

    def in_flight(self, agent: str | None = None) -> int:
        """Requests that are being answered now."""
        with self._lock:
            return self._flying if agent is None else self._in_flight[agent]

    def peak(self, agent: str | None = None) -> int:
        """The most requests that were ever in flight at once."""
        with self._lock:
            return self._highest if agent is None else self._peak[agent]

    def forget(self) -> None:
        """Drop the finished requests and start the peaks anew."""
        with self._lock:
            self._requests = [r for r in self._requests if r.finished_at is None]
            self._peak = Counter(self._in_flight)
            self._highest = self._flying

    def wait(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Block until the predicate holds; looked at after each change. False = timed out."""
        with self._lock:
            return self._lock.wait_for(predicate, timeout_s)

    async def wait_async(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """As `wait`, on an event loop."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def listener() -> None:
            loop.call_soon_threadsafe(changed.set)

        with self._lock:
            self._listeners.append(listener)
        try:
            async with asyncio.timeout(timeout_s):
                while not predicate():
                    await changed.wait()
                    changed.clear()
            return True
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def _tell(self) -> None:
        self._lock.notify_all()
        for listener in self._listeners:
            listener()
