"""The Celery app of Retinue: its own, beside whatever app the application has."""

from __future__ import annotations

import ssl
from typing import Any, Final

from celery import Celery
from kombu.entity import Queue

from retinue.broker.addresses import sentinel_options
from retinue.broker.routes import APPLICATION_QUEUE, PRIORITY_STEPS
from retinue.broker.settings import Settings
from retinue.store.connections.keepalive import KEEPALIVE_OPTIONS
from retinue.store.connections.sentinel_urls import SentinelAddress

DEFAULT_CONCURRENCY = 500
"""Runs of one worker process at a time, unless `-c` says otherwise; a waiting run costs kilobytes."""

_POP_S: Final = 1.0
"""How long a pop waits on the server, by kombu's own setting, in seconds."""

POOL = "retinue.worker.pool.run_pool:RunPool"
"""Where Celery finds the pool. A name, because an application that only launches has no worker."""


def create_app(settings: Settings) -> Celery:
    """An app that clients publish with and workers run on. It does not become Celery's current app.

    Args:
        settings: Where the broker is, and the default queue.

    Raises:
        SettingsError: Neither a broker nor a store is set.
    """
    app = Celery("retinue", amqp="retinue.broker.transport:Amqp", set_as_current=False)
    app.conf.update(_common(settings) | _publishing() | _working(settings))
    return app


def create_sender(settings: Settings) -> Celery:
    """An app that sends tasks of the application's over the same broker, and does nothing else.

    Raises:
        SettingsError: Neither a broker nor a store is set.
    """
    app = Celery("retinue.on_done", set_as_current=False)
    app.conf.update(_common(settings) | _publishing())
    app.conf.update(task_default_queue=APPLICATION_QUEUE, task_queues=None)
    if settings.broker_address is None:
        # AMQP: what is sent counts only once the broker says that it has it.
        app.conf.broker_transport_options = {"confirm_publish": True}
    return app


def _common(settings: Settings) -> dict[str, Any]:
    url = settings.required_broker_url
    return {
        "broker_url": url,
        "broker_transport_options": _transport_options(settings),
        # kombu's default for rediss:// is not to look at the certificate.
        "broker_use_ssl": {"ssl_cert_reqs": ssl.CERT_REQUIRED} if url.startswith("rediss://") else None,
        "broker_connection_timeout": settings.store_timeout_seconds,
        # The store has the truth: no results, no late acks, and nothing but JSON is read.
        "task_ignore_result": True,
        "task_acks_late": False,
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": settings.queue,
        "task_queues": [Queue(settings.queue, routing_key=settings.queue)],
        "task_create_missing_queues": True,
        "enable_utc": True,
        "timezone": "UTC",
    }


def _transport_options(settings: Settings) -> dict[str, Any]:
    address, timeout_s = settings.broker_address, settings.store_timeout_seconds
    if address is None:
        return {}
    own = sentinel_options(address) if isinstance(address, SentinelAddress) else {}
    return {
        **own,
        "ack_emulation": False,
        "priority_steps": list(PRIORITY_STEPS),
        "queue_order_strategy": "round_robin",
        # A pop that is not answered is found within 2 x 2 + 1 s, instead of 51.
        "health_check_interval": 2,
        "socket_keepalive": True,
        "socket_keepalive_options": KEEPALIVE_OPTIONS,
        "socket_connect_timeout": timeout_s,
        # Celery's events are sent from the thread that pops, which waits for the replies.
        "socket_timeout": _POP_S + timeout_s,
    }


def _publishing() -> dict[str, Any]:
    """A launch waits for this: the reaper sends what could not be published."""
    return {
        "task_publish_retry": True,
        "task_publish_retry_policy": {
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0.1,
            "interval_max": 0.2,
        },
    }


def _working(settings: Settings) -> dict[str, Any]:
    return {
        "worker_pool": POOL,
        "worker_concurrency": DEFAULT_CONCURRENCY,
        # Not worker_disable_prefetch: SlotQoS in broker/transport.py asks the same at better moments.
        "worker_prefetch_multiplier": 1,
        "worker_enable_prefetch_count_reduction": False,
        "worker_disable_rate_limits": True,
        "worker_send_task_events": True,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # A worker outlives any outage of its broker, also a failover's error replies.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        # Names from our own configuration, never from data.
        "retinue_runtime": "retinue.worker.runtime:create_runtime",
        "retinue_queues": None,
        "retinue_drain_seconds": settings.drain_seconds,
    }
