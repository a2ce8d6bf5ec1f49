"""Hints that a run of this process may be under a cancel mark. The mark is the truth: it is read first."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

from retinue.store import keys, reading
from retinue.store.async_subscription import AsyncSubscriptions
from retinue.store.call import RunKey
from retinue.worker.patience import PatientStore
from retinue.worker.roll import Entry


class CancelHints:
    """Raises the alarm of held runs whose cancel mark a hint pointed to.

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

    def watching(self, entry: Entry) -> AbstractContextManager[object]:
        """Listens for one run, from before its claim is sent: a mark set after that is not missed."""
        return self._subscriptions.hook([(self._channel, entry.key.run_id)], _Look(self, entry))

    def look(self, entry: Entry) -> None:
        """Reads the run's mark, on the loop's own time."""
        task = asyncio.get_running_loop().create_task(self._read(entry))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def _read(self, entry: Entry) -> None:
        if await cancel_stands(self._store, entry.key):
            entry.raise_alarm()


async def cancel_stands(store: PatientStore, run: RunKey) -> bool:
    """Whether a run is under a cancel mark, or not there any more."""
    view = await store.run(reading.read_status(run))
    return view is None or view.under_cancel


class _Look:
    """Stands where a subscription expects an event: setting it starts a look, so no task waits idle."""

    __slots__ = ("_entry", "_hints")

    def __init__(self, hints: CancelHints, entry: Entry) -> None:
        self._hints = hints
        self._entry = entry

    def set(self) -> None:
        self._hints.look(self._entry)
