"""kombu's Redis transport with a cheaper and safer way to pop: everything that leans on its insides.

Celery's own way costs two thirds of a wake-up in bookkeeping that the store makes needless, and at a
memory limit that bookkeeping ends the worker. What differs:

- several messages leave in one BLMPOP, as many as there are free slots, and never more than 16: a
  larger chunk would pile up runs on one of two idle workers;
- nothing is written down about unacknowledged messages (`ack_emulation` off, consumers with `no_ack`),
  and a message that was popped but cannot be delivered is put back, also at a memory limit;
- a message that cannot be read, or whose handler fails, costs that message and not the rest of the pop.
  kombu counts KeyError as a lost connection, so without this it would also look like one;
- declaring queues, and renewing their bindings, is not refused at a memory limit;
- a consumer whose broker is away looks for it every second at the latest.

The overridden methods are kombu's private ones: kombu is pinned to one minor series, and each has a
test.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Sequence
from queue import Empty
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.messaging import Consumer
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual
from kombu.utils.encoding import bytes_to_str
from redis.exceptions import OutOfMemoryError, RedisError

POP_MAX: Final = 16
"""Most messages of one pop."""

# allow-oom: these messages stood in the list a moment ago. Pushed so that the oldest is popped first.
_PUT_BACK: Final = """#!lua flags=allow-oom
for at = #ARGV, 1, -1 do redis.call('RPUSH', KEYS[1], ARGV[at]) end
return #ARGV
"""

_log = logging.getLogger(__name__)


class WakeUpMessage(virtual.Message):
    """A task message without the parts of kombu's that only acknowledging and decoding need."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **kwargs: Any) -> None:
        headers = payload.get("headers")
        # Replies and control commands come through the same class.
        if not headers or "task" not in headers:
            super().__init__(payload, channel, **kwargs)
            return
        properties = payload["properties"]
        self._raw = payload
        self.errors = []
        self.channel = channel
        self.headers = headers
        self.properties = properties
        self.delivery_tag = properties["delivery_tag"]
        self.delivery_info = properties["delivery_info"]
        self.content_type = payload["content-type"]
        self.content_encoding = payload["content-encoding"]
        self.body = base64.b64decode(payload["body"])
        self._decoded_cache = None
        self._state = "RECEIVED"
        self.accept = None

    @property
    def raw(self) -> dict[str, Any]:
        """The message as it stood on the broker, decoded from JSON."""
        return self._raw


class SlotQoS(virtual.QoS):
    """Lets a channel pop while there are free slots.

    Celery's `worker_disable_prefetch` asks the same question, but also before a reply is read. A reply
    that was asked for while there was room holds messages that no longer are on the server: it must be
    read, whatever has happened to the slots since.
    """

    def can_consume(self) -> bool:
        channel = self.channel
        if channel.free_slots is None:
            return super().can_consume()
        return bool(channel._in_poll) or (not channel.intake_stopped and channel.free_slots() > 0)


# For the checker only: at run time each channel below brings its own base.
_Base = kombu_redis.Channel if TYPE_CHECKING else object


class _Intake(_Base):
    """The changes to kombu's Channel, for a single server and for Sentinel."""

    Message = WakeUpMessage

    free_slots: Callable[[], int] | None = None
    """Set by the worker on the channel of its task consumer; None = an ordinary channel."""

    intake_stopped = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.ack_emulation:
            self.QoS = SlotQoS

    def _brpop_start(self, timeout: float | None = None) -> None:
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        # kombu's prefixing client does not know BLMPOP, so the keys are prefixed here.
        keys = [
            f"{self.global_keyprefix}{self._q_for_pri(queue, step)}"
            for step in self.priority_steps
            for queue in queues
        ]
        room = POP_MAX if self.free_slots is None else self.free_slots()
        connection = self.client.connection
        self._in_poll = connection
        self._brpop_sent_at = monotonic()
        wait_s = (self.brpop_timeout if timeout is None else timeout) or 0
        connection.send_command(
            "BLMPOP", wait_s, len(keys), *keys, "RIGHT", "COUNT", max(1, min(POP_MAX, room))
        )

    def _brpop_read(self, **options: Any) -> Literal[True]:
        try:
            reply = self.client.parse_response(self.client.connection, "BLMPOP", **options)
        except self.connection_errors:
            # The next round connects anew.
            self.client.connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        if not reply:
            raise Empty
        key, items = reply
        key = bytes_to_str(key)[len(self.global_keyprefix) :]
        queue = key.rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        self._deliver_all(key, queue, items)
        return True

    def _deliver_all(self, key: str, queue: str, items: Sequence[bytes]) -> None:
        deliver = None if self._closing or self.intake_stopped else self.connection._callbacks.get(queue)
        if deliver is None:
            self.put_back(key, items)
            return
        taken = 0
        try:
            for item in items:
                taken += 1
                try:
                    deliver(json.loads(item))
                except Exception as error:
                    # Only the kind: the text of an error may quote the message.
                    _log.error("message.dropped queue=%s error=%s", queue, type(error).__name__)
        finally:
            # Only after something like SystemExit: the rest belongs to other workers.
            if taken < len(items):
                self.put_back(key, items[taken:])

    def put_back(self, key: str, items: Sequence[bytes | str]) -> bool:
        """Return popped messages to the end of their list that is popped next, in their old order.

        Args:
            key: The list, without the global prefix.
            items: The messages, the one popped first first.

        Returns:
            Whether they are back. If not, it is logged, and the runs are woken again by the reaper.
        """
        try:
            with self.conn_or_acquire() as client:
                client.eval(_PUT_BACK, 1, self.global_keyprefix + key, *items)
            return True
        except (RedisError, OSError) as error:
            _log.warning("wakeups.not_put_back count=%d error=%s", len(items), type(error).__name__)
            return False

    def put_back_message(self, message: WakeUpMessage) -> bool:
        """Return one message that was delivered, as `put_back` does."""
        raw = message.raw
        key = self._q_for_pri(
            message.delivery_info["routing_key"], self._get_message_priority(raw, reverse=False)
        )
        return self.put_back(key, [json.dumps(raw)])

    def stop_intake(self) -> None:
        """Pop nothing more, and put back what an outstanding pop brings; that takes up to a second."""
        self.intake_stopped = True
        if self._in_poll:
            try:
                self._brpop_read()
            except Empty:
                pass
            except self.connection_errors as error:
                _log.warning("pop.unread error=%s", type(error).__name__)

    def _size(self, queue: str) -> Any:
        # kombu asks in a MULTI, in which Redis 7.0 refuses every command at its memory limit.
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
            for step in self.priority_steps:
                pipe.llen(self._q_for_pri(queue, step))
            return sum(pipe.execute())

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        try:
            super()._queue_bind(exchange, routing_key, pattern, queue)
        except OutOfMemoryError:
            # Task queues are reached by name and broadcasts by subscription: both work without.
            _log.warning("queue.not_bound queue=%s reason=maxmemory", queue)

    def maybe_refresh_binding_expiry(self) -> None:
        try:
            super().maybe_refresh_binding_expiry()
        except OutOfMemoryError:
            # Asked again every second: kombu would log a traceback each time.
            _log.debug("binding.not_renewed reason=maxmemory")


class Channel(_Intake, kombu_redis.Channel):
    """A channel to one Redis or Valkey server."""


class SentinelChannel(_Intake, kombu_redis.SentinelChannel):
    """A channel to the primary that Sentinel names."""


class Transport(kombu_redis.Transport):
    """For `redis://`, `rediss://` and `redis+socket://` URLs."""

    Channel = Channel


class SentinelTransport(kombu_redis.SentinelTransport):
    """For `sentinel://` URLs."""

    Channel = SentinelChannel


class BrokerConnection(Connection):
    """A connection that takes our transports for Redis URLs, also after a failover to another URL.

    A setting such as `broker_transport` would be forgotten there, be ignored for unix sockets, and show
    as the URL's scheme, by which Flower chooses how to ask for queue lengths.
    """

    def _ensure_connection(
        self,
        *args: Any,
        interval_start: float = 0.05,
        interval_step: float = 0.2,
        interval_max: float = 1.0,
        **kwargs: Any,
    ) -> Any:
        # Celery's consumer names no pauses, and kombu's own are 2, 4 ... 30 s: a worker would come back long
        # after its broker.
        pauses: dict[str, Any] = {
            "interval_start": interval_start,
            "interval_step": interval_step,
            "interval_max": interval_max,
        }
        return super()._ensure_connection(*args, **pauses, **kwargs)

    def get_transport_cls(self) -> type[Any] | None:
        own = _TRANSPORTS.get(self.transport_cls)
        return super().get_transport_cls() if own is None else own


_TRANSPORTS: Final[dict[object, type[Any]]] = {
    "redis": Transport,
    "rediss": Transport,
    "sentinel": SentinelTransport,
}


class NoAckConsumer(Consumer):
    """A consumer of tasks whose messages are done with when they are popped."""

    no_ack = True


class Amqp(AMQP):
    """Celery's door to kombu, with that connection, and that consumer for tasks only."""

    Connection = BrokerConnection
    Consumer = NoAckConsumer
