"""Hints for runs of this process: that one may be under a mark, and that somebody listens to one.

The mark is the truth: it is read first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.operations import passing, reading
from retinue.worker.process.patience import PatientStore
from retinue.worker.process.roll import Entry


class CancelHints:
    """Tells held runs of the marks that hints pointed to.

    Args:
        subscriptions: The process's.
        store: Where the mark is read.
        process: The process's uuid, which names its channel.
    """

    def __init__(self, subscriptions: AsyncSubscriptions, store: PatientStore, process: str) -> None:
        self._subscriptions = subscriptions
        self._store = store
        self._channel = keys.process_channel(process)
        self._looks: set[asyncio.Task[None]] = set()

    @contextmanager
    def watching(self, entry: Entry) -> Generator[None]:
        """Listens for one run, from before its claim is sent: a mark set after that is not missed."""
        run_id, hook = entry.key.run_id, self._subscriptions.hook
        with (
            hook([(self._channel, run_id)], _Look(self, entry)),
            hook([(self._channel, passing.told_word(run_id))], _Hear(entry)),
        ):
            yield

    def look(self, entry: Entry) -> None:
        """Reads the run's mark, on the loop's own time."""
        task = asyncio.get_running_loop().create_task(self._read(entry))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _read(self, entry: Entry) -> None:
        view = await self._store.run(reading.read_status(entry.key))
        if view is None or view.under_cancel:
            entry.raise_alarm()
        elif view.is_interrupted:
            entry.interrupt()


async def cancel_stands(store: PatientStore, run: RunKey) -> bool:
    """Whether a run is under a cancel mark, or not there any more."""
    view = await store.run(reading.read_status(run))
    return view is None or view.under_cancel


async def may_ask(store: PatientStore, run: RunKey) -> bool:
    """Whether a run's model may be asked once more: nobody has cancelled or interrupted it."""
    view = await store.run(reading.read_status(run))
    return view is not None and not view.under_cancel and not view.is_interrupted


class _Look:
    """Stands where a subscription expects an event: setting it starts a look, so no task waits idle."""

    __slots__ = ("_entry", "_hints")

    def __init__(self, hints: CancelHints, entry: Entry) -> None:
        self._hints = hints
        self._entry = entry

    def set(self) -> None:
        self._hints.look(self._entry)


class _Hear:
    """Stands there as well: setting it says that somebody listens to the run from now on."""

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def set(self) -> None:
        if self._entry.run:
            self._entry.run.is_heard = True
