"""The Celery app that `retinue flower` watches with: Retinue's own, without the texts of others' tasks.

Separate from the worker's app because a process that only watches needs neither agents nor models.
"""

from __future__ import annotations

from typing import Any, Final

import flower.events
from celery import Celery
from celery.events.receiver import EventReceiver

from retinue.broker.app import create_app
from retinue.broker.settings import load_settings
from retinue.contract import parse_task_id

_HIDDEN_OF_STRANGERS: Final = ("args", "kwargs", "result", "exception", "traceback")


class DiscreetReceiver(EventReceiver):
    """Takes arguments and outcomes of other applications' tasks out of events before anything can show them.

    They may hold anything. Retinue's own are shown: a run's id, and one line such as
    "suspended: waiting_children (2 open)".
    """

    def event_from_message(self, body: Any, *args: Any, **kwargs: Any) -> Any:
        """Called by Celery for each message."""
        kind, event = super().event_from_message(body, *args, **kwargs)
        if parse_task_id(event.get("uuid")) is None:
            for name in _HIDDEN_OF_STRANGERS:
                if name in event:
                    event[name] = ""
        return kind, event


def create_flower_app() -> Celery:
    """Retinue's app, for a Flower that receives events discreetly.

    Raises:
        SettingsError: Neither a broker nor a store is set.
    """
    # Flower takes the class from its own module, not from the app, and its API ignores `format_task`.
    flower.events.EventReceiver = DiscreetReceiver
    return create_app(load_settings())


app = create_flower_app()
