"""Sending wake-ups. The store has the truth: one that is lost costs time, never a run."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, Protocol

from celery import Celery

from retinue.broker.envelope import EnvelopeTemplate
from retinue.broker.links import AsyncExecutes, Executes
from retinue.broker.routes import queue_key
from retinue.contract.ids import task_id
from retinue.store.record import WakeUp

FIRST_WAKEUP: Final = 1
"""The number of a run's first wake-up; its task id stands for the run where Flower links a tree."""

_log = logging.getLogger(__name__)


class Wakes(Protocol):
    """Sends wake-ups, as Waker does; one that cannot be sent is left to the reaper."""

    async def send(self, *wakeups: WakeUp) -> bool: ...


class Waker:
    """Pushes wake-ups: through the store's link where the broker is the same server, else through kombu.

    Nothing here raises: a wake-up that could not be sent is logged, and the reaper sends it later.

    Args:
        app: The Retinue app.
        template: The message's shape; None = captured from the app.
        link: For `send`; None = kombu.
        sync_link: For `send_sync`; None = kombu.
    """

    def __init__(
        self,
        app: Celery,
        *,
        template: EnvelopeTemplate | None = None,
        link: AsyncExecutes | None = None,
        sync_link: Executes | None = None,
    ) -> None:
        self.app = app
        self.template = template or EnvelopeTemplate.capture(app)
        self._link = link
        self._sync_link = sync_link
        self._prefix: str = (app.conf.broker_transport_options or {}).get("global_keyprefix", "")

    def list_and_envelope(self, wakeup: WakeUp) -> tuple[str, bytes]:
        """What a script needs to push the wake-up itself: the list on the broker and the message."""
        key = queue_key(wakeup.queue, wakeup.priority, self._prefix)
        return key, envelope_of(wakeup, self.template)

    async def send(self, *wakeups: WakeUp) -> bool:
        """Send wake-ups, one command per list.

        Returns:
            Whether all of them were handed over.
        """
        if self._link is None:
            return await asyncio.to_thread(self._publish, wakeups)
        try:
            await asyncio.gather(*(self._link.execute(*command) for command in self._pushes(wakeups)))
        except Exception as error:
            return _lost(wakeups, error)
        return True

    def send_sync(self, *wakeups: WakeUp) -> bool:
        """As `send`, for code without an event loop."""
        if self._sync_link is None:
            return self._publish(wakeups)
        try:
            for command in self._pushes(wakeups):
                self._sync_link.execute(*command)
        except Exception as error:
            return _lost(wakeups, error)
        return True

    def _pushes(self, wakeups: Sequence[WakeUp]) -> list[tuple[str | bytes, ...]]:
        lists: defaultdict[str, list[bytes]] = defaultdict(list)
        for wakeup in wakeups:
            key, envelope = self.list_and_envelope(wakeup)
            lists[key].append(envelope)
        return [("LPUSH", key, *envelopes) for key, envelopes in lists.items()]

    def _publish(self, wakeups: Sequence[WakeUp]) -> bool:
        """Send through kombu; how often it tries again stands in the app's publish policy."""
        try:
            with self.app.producer_or_acquire() as producer:
                for wakeup in wakeups:
                    self._publish_one(producer, wakeup)
        except Exception as error:
            return _lost(wakeups, error)
        return True

    def _publish_one(self, producer: Any, wakeup: WakeUp) -> None:
        parent = task_id(wakeup.parent_id, FIRST_WAKEUP) if wakeup.parent_id else None
        self.app.send_task(
            wakeup.kind.task_name,
            args=(wakeup.tenant, wakeup.run_id),
            task_id=task_id(wakeup.run_id, wakeup.number),
            producer=producer,
            queue=wakeup.queue,
            priority=wakeup.priority,
            shadow=wakeup.agent,
            root_id=task_id(wakeup.root_id, FIRST_WAKEUP),
            parent_id=parent,
            argsrepr=wakeup.run_id,
            kwargsrepr="{}",
            ignore_result=True,
        )


def envelope_of(wakeup: WakeUp, template: EnvelopeTemplate) -> bytes:
    """The message of a wake-up, ready for LPUSH."""
    return template.fill(
        wakeup.kind,
        wakeup.tenant,
        wakeup.run_id,
        wakeup.number,
        task_id(wakeup.root_id, FIRST_WAKEUP),
        task_id(wakeup.parent_id, FIRST_WAKEUP) if wakeup.parent_id else None,
        wakeup.agent,
        wakeup.queue,
        wakeup.priority,
    )


def _lost(wakeups: Sequence[WakeUp], error: Exception) -> bool:
    # Only the kind: the text of an error may name the server with its password.
    first = wakeups[0].run_id if wakeups else ""
    _log.warning("wakeups.not_sent count=%d first=%s error=%s", len(wakeups), first, type(error).__name__)
    return False
