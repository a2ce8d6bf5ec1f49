"""The Celery message of a wake-up, made without Celery.

A launch writes the record and pushes the wake-up in one script, so the finished message must be in hand
before. Its shape is taken from the installed Celery once a process; only the ids are filled in after.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any, Final

from celery import Celery
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.messaging import Producer
from kombu.transport import virtual

from retinue.contract.ids import task_id
from retinue.store.record import WakeUpKind

CANARY_TASK: Final = "retinue.canary"
"""The task of a message that only asks whether somebody takes what comes to a queue."""

_PLACE: Final = re.compile(r'"@(\w+)@"')


@dataclass(frozen=True, slots=True)
class EnvelopeTemplate:
    """A message with places for ids: texts, and between them the names of what is filled in."""

    texts: tuple[str, ...]
    places: tuple[str, ...]
    body_end: str

    @classmethod
    def capture(cls, app: Celery) -> EnvelopeTemplate:
        """Take the shape from this Celery; no server is asked.

        Args:
            app: The app whose workers will read the messages.
        """
        message = _published_by(app)
        headers, properties = message["headers"], message["properties"]
        embedded = json.loads(base64.b64decode(message["body"]))[2]
        message["body"] = "@body@"
        headers |= {
            "task": "@task@",
            "id": "@id@",
            "shadow": "@shadow@",
            "root_id": "@root@",
            "parent_id": "@parent@",
            "argsrepr": "@run@",
        }
        properties |= {"correlation_id": "@id@", "delivery_tag": "@id@", "priority": "@priority@"}
        properties["delivery_info"]["routing_key"] = "@queue@"
        pieces = _PLACE.split(json.dumps(message))
        return cls(tuple(pieces[0::2]), tuple(pieces[1::2]), f", {{}}, {json.dumps(embedded)}]")

    def fill(
        self,
        kind: WakeUpKind,
        tenant: str,
        run_id: str,
        wakeup: int,
        root_task_id: str,
        parent_task_id: str | None,
        agent: str,
        queue: str,
        priority: int,
    ) -> bytes:
        """The message of one wake-up, ready for LPUSH.

        Args:
            kind: What it is for.
            tenant: With run_id all that the task is told.
            run_id: The run.
            wakeup: Its wake-up's number; makes the task id.
            root_task_id: Task id of the first wake-up of the tree's root, by which Flower links the tree.
            parent_task_id: The same of the parent; None for a root.
            agent: What Flower shows as the task's name.
            queue: Where it is going to be pushed.
            priority: 0 (first) to 9.
        """
        # Names may hold anything; a tenant and an id have no character that JSON would escape.
        body = f'[["{tenant}", "{run_id}"]{self.body_end}'
        values = {
            "body": f'"{base64.b64encode(body.encode()).decode()}"',
            "task": f'"{kind.task_name}"',
            "id": f'"{task_id(run_id, wakeup)}"',
            "shadow": json.dumps(agent),
            "root": f'"{root_task_id}"',
            "parent": "null" if parent_task_id is None else f'"{parent_task_id}"',
            "run": f'"{run_id}"',
            "queue": json.dumps(queue),
            "priority": str(priority),
        }
        return self._with(values)

    def canary(self, nonce: str, queue: str) -> bytes:
        """The message of a canary, ready for the broker; it names no run.

        Args:
            nonce: Of letters, digits and hyphens; by it the answer is found.
            queue: Where it is going to be pushed.
        """
        body = f'[["{nonce}"]{self.body_end}'
        return self._with(
            {
                "body": f'"{base64.b64encode(body.encode()).decode()}"',
                "task": f'"{CANARY_TASK}"',
                "id": f'"{nonce}"',
                "shadow": "null",
                "root": f'"{nonce}"',
                "parent": "null",
                "run": '"canary"',
                "queue": json.dumps(queue),
                "priority": "0",
            }
        )

    def _with(self, values: dict[str, str]) -> bytes:
        parts = [self.texts[0]]
        for place, text in zip(self.places, self.texts[1:], strict=True):
            parts += (values[place], text)
        return "".join(parts).encode()


class _CaptureChannel(virtual.Channel):
    """Keeps the last published message instead of sending it."""

    published: dict[str, Any] | None = None

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self.published = message

    def _size(self, queue: str) -> Any:
        return 0


class _CaptureTransport(virtual.Transport):
    Channel = _CaptureChannel
    driver_type = "capture"
    driver_name = "capture"


def _published_by(app: Celery) -> dict[str, Any]:
    """What Celery publishes for a task, without the signals: an application listens to those."""
    parts = app.amqp.as_task_v2(
        "id",
        WakeUpKind.DELEGATE.task_name,
        args=("", ""),
        ignore_result=True,
        root_id="id",
        argsrepr="run",
        kwargsrepr="{}",
    )
    with Connection(transport=_CaptureTransport) as connection, connection.channel() as channel:
        Producer(channel).publish(
            parts.body,
            exchange="",
            routing_key="queue",
            headers=parts.headers,
            serializer="json",
            delivery_mode=app.conf.task_default_delivery_mode,
            declare=[Queue("queue")],
            priority=0,
            **parts.properties,
        )
        published: Any = channel.published
        if published is None:
            raise RuntimeError("this kombu publishes in another way than broker/envelope.py expects")
        return published
