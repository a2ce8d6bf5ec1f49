"""Named points at which a worker process can be made to die, to try what its death leaves behind.

The environment variable RETINUE_CRASH_POINT names one: `before-` or `after-` and then `model`, `tool`,
`wakeup`,
`notice` or a script of the store, such as `after-record_model`; with `:n`, the n-th time that the process
gets there (default 1). The process is then killed with SIGKILL. Where the variable is not set, nothing of
this module stands in the way of any call.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import ParamSpec, TypeVar

from retinue.broker.notices import Notice, Sends
from retinue.broker.wakeups import Wakes
from retinue.store.call import CommandCall, ScriptCall
from retinue.store.record import WakeUp
from retinue.store.store import AsyncStore, AwaitableLink
from retinue.worker.models import Model, ModelRequest, ModelResponse
from retinue.worker.models.base import OnDelta

VARIABLE = "RETINUE_CRASH_POINT"
P = ParamSpec("P")
T = TypeVar("T")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class CrashPoint:
    """The point at which this process dies.

    Args:
        text: As the variable has it: name, or name and number.
        die: Called there.

    Raises:
        ValueError: The number is none.
    """

    def __init__(self, text: str, *, die: Callable[[], None] = _die) -> None:
        self.name, _, number = text.partition(":")
        self._left = int(number or 1)
        self._die = die

    @contextmanager
    def passing(self, what: str) -> Generator[None]:
        """What is done inside has a point before and, unless it fails, one after it."""
        self._reach(f"before-{what}")
        yield
        self._reach(f"after-{what}")

    def _reach(self, name: str) -> None:
        if name == self.name:
            self._left -= 1
            if self._left == 0:
                self._die()


@cache
def armed() -> CrashPoint | None:
    """The point that this process's environment names.

    It is taken out there: it is meant for this process, and not for those that it starts.
    """
    text = os.environ.pop(VARIABLE, None)
    return CrashPoint(text) if text else None


def mortal_store(link: AwaitableLink) -> AsyncStore:
    """The store over a link; its points bear the names of the scripts."""
    point = armed()
    return AsyncStore(link) if point is None else _MortalStore(link, point)


def mortal_wakes(waker: Wakes) -> Wakes:
    """The waker itself, or one with points around each `wakeup`."""
    point = armed()
    return waker if point is None else _MortalWakes(waker, point)


def mortal_notices(notifier: Sends) -> Sends:
    """The notifier itself, or one with points around each `notice`."""
    point = armed()
    return notifier if point is None else _MortalNotices(notifier, point)


def mortal_model(model: Model) -> Model:
    """The model itself, or one with points around each request."""
    point = armed()
    return model if point is None else _MortalModel(model, point)


def mortal(what: str, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The function itself, or one with points around each call."""
    point = armed()
    if point is None:
        return function

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with point.passing(what):
            return await function(*args, **kwargs)

    return call


class _MortalStore(AsyncStore):
    def __init__(self, link: AwaitableLink, point: CrashPoint) -> None:
        super().__init__(link)
        self._point = point

    async def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        if not isinstance(call, ScriptCall):
            return await super().run(call)
        with self._point.passing(call.script.name):
            return await super().run(call)


class _MortalWakes:
    def __init__(self, waker: Wakes, point: CrashPoint) -> None:
        self._waker = waker
        self._point = point

    async def send(self, *wakeups: WakeUp) -> bool:
        with self._point.passing("wakeup"):
            return await self._waker.send(*wakeups)


class _MortalNotices:
    def __init__(self, notifier: Sends, point: CrashPoint) -> None:
        self._notifier = notifier
        self._point = point

    async def send(self, notices: Sequence[Notice]) -> list[Notice]:
        with self._point.passing("notice"):
            return await self._notifier.send(notices)


class _MortalModel:
    def __init__(self, model: Model, point: CrashPoint) -> None:
        self._model = model
        self._point = point

    async def complete(self, request: ModelRequest, *, on_delta: OnDelta | None = None) -> ModelResponse:
        with self._point.passing("model"):
            return await self._model.complete(request, on_delta=on_delta)
