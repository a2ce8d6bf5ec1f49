"""The consumer step that ties Celery's task consumer to the pool."""

from __future__ import annotations

import logging
from typing import Any

from celery import bootsteps
from celery.worker.consumer.tasks import Tasks
from kombu.entity import Exchange, Queue

from retinue.broker.routes import private_queue
from retinue.worker.pool.revoke import install_revoke

_log = logging.getLogger("retinue.worker")
_NAME_MAX_CHARS = 200


class Intake(bootsteps.StartStopStep):
    """Adds the process's private queue, pops by free slots, and gives back what was popped at the end."""

    requires = (Tasks,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        install_revoke()
        # Celery would log the whole message of another application that has our queue by mistake.
        c.on_unknown_task = c.on_invalid_task = _drop_task
        c.on_unknown_message = _drop_message

    def start(self, parent: Any) -> None:
        """After each (re)connect, before the first message is received."""
        name = private_queue(parent.pool.process_id)
        # No exchange of its own: its binding would stay on the server after this process.
        parent.task_consumer.add_queue(Queue(name, Exchange(""), routing_key=name))
        parent.task_consumer.channel.free_slots = parent.pool.free_slots

    def stop(self, parent: Any) -> None:
        """Before the consumer is cancelled: at shutdown, and after the connection was lost."""
        if parent.connection is not None:
            # Runs go on for a while now, and popped messages must not lie in a socket for so long.
            parent.task_consumer.channel.stop_intake()
        if parent.event_dispatcher is not None:
            # The next dispatcher takes over what this one could not send, but not what it only collected.
            parent.event_dispatcher.flush()


def _drop_task(_body: Any, message: Any, _error: Exception) -> None:
    name = str(message.headers.get("task"))[:_NAME_MAX_CHARS]
    _log.error(
        "message.dropped reason=not_ours task=%r: does another Celery application use Retinue's queue?", name
    )


def _drop_message(_body: Any, _message: Any) -> None:
    _log.error("message.dropped reason=malformed")
