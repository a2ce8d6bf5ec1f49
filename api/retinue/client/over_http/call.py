"""One operation of the API as a value: what is sent, and what its answer means."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from retinue.contract import SubagentHandle, SubagentLifecycleError

T = TypeVar("T")

MUCH_S: Final = 55.0
"""What calls that do much in one are granted beyond any other: batches and purges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request.

    Args:
        method: GET, POST or DELETE.
        path: Below the API's root; its parts are escaped already.
        parse: Makes the answer of the JSON that came back.
        query: Parameters.
        body: Sent as JSON. None = nothing.
        handle: The run's, sent whole, so that the API can tell a forged one.
        unknown: The answer where the API knows no such run. None = that is an error.
        gone: The same after an attempt of this call whose answer was lost. None = as `unknown`.
        mutates: Carries an id by which the API knows a repeat.
        launches: If its outcome stays unknown, a run may have been started.
        work_s: What the API may take beyond any other call's time, in seconds.
    """

    method: str
    path: str
    parse: Callable[[Any], T] = field(repr=False)
    query: Mapping[str, str | int | float] = field(default_factory=dict[str, str | int | float])
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    handle: SubagentHandle | None = None
    unknown: Callable[[], T] | None = field(default=None, repr=False)
    gone: Callable[[], T] | None = field(default=None, repr=False)
    mutates: bool = False
    launches: bool = False
    work_s: float = 0.0

    def headers(self) -> dict[str, str]:
        """What this request carries beside the key."""
        found = {"Accept": "application/json"}
        if self.body is not None:
            found["Content-Type"] = "application/json"
        if self.handle is not None:
            found["Retinue-Handle"] = encoded_handle(self.handle)
        return found

    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """An answer for which nobody has to be asked."""

    value: T


@dataclass(frozen=True, slots=True)
class Pause:
    """A step that only takes time."""

    seconds: float


Asked = Call[T] | Known[T]
Steps = Generator[Call[Any] | Pause, Any, T]
"""An operation of several calls: each is answered with what its call gave, or by its error being thrown."""


class Course(Generic[T]):
    """An operation of several calls under way.

    Args:
        steps: The operation.

    Attributes:
        step: What is to be done next; None = nothing, it is over.
        value: What it came to, once it is over.
    """

    value: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self.step: Call[Any] | Pause | None = None
        self.answered(None)

    def answered(self, found: object) -> None:
        """Goes on with what the step gave."""
        self._go(lambda: self._steps.send(found))

    def failed(self, error: SubagentLifecycleError) -> None:
        """Goes on after the step's error.

        Raises:
            SubagentLifecycleError: The operation does not outlast it.
        """
        self._go(lambda: self._steps.throw(error))

    def _go(self, resume: Callable[[], Call[Any] | Pause]) -> None:
        try:
            self.step = resume()
        except StopIteration as end:
            self.step, self.value = None, end.value


def encoded_handle(handle: SubagentHandle) -> str:
    """A handle as a header carries it: its JSON in URL-safe Base64, without padding."""
    text = json.dumps(handle.to_dict(), separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
