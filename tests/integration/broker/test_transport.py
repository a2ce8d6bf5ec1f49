"""Each of kombu's private methods that broker/transport.py overrides, on real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.transport import virtual
from kombu.transport.redis import SentinelChannel as KombuSentinelChannel

from retinue.broker import transport
from retinue.broker.app import create_app
from retinue.broker.envelope import EnvelopeTemplate, WakeUpKind
from retinue.broker.routes import queue_key
from retinue.broker.settings import Settings
from retinue.contract.ids import new_run_id
from retinue.testing.servers import PrivateServer

PREFIX = "shop:"


class Desk:
    """A task consumer as a worker has it, and the server behind it."""

    def __init__(self, server: PrivateServer, stack: ExitStack, *, prefix: str = "") -> None:
        self.app: Celery = create_app(Settings.read(store_url=server.url))
        self.app.conf.broker_transport_options["global_keyprefix"] = prefix
        self.client: redis.Redis = server.client(decode_responses=True)
        self.template = EnvelopeTemplate.capture(self.app)
        self.prefix = prefix
        self.slots = 100
        self.received: list[str] = []
        self.messages: list[Any] = []
        self.errors: dict[str, BaseException] = {}
        self.connection = stack.enter_context(self.app.connection_for_read())
        self.channel: Any = self.connection.default_channel
        self.channel.free_slots = lambda: self.slots
        self.consumer = self.app.amqp.TaskConsumer(self.channel, on_message=self._on_message)

    def _on_message(self, message: Any) -> None:
        run_id = json.loads(message.body)[0][1]
        self.received.append(run_id)
        self.messages.append(message)
        if run_id in self.errors:
            raise self.errors[run_id]

    def push(self, count: int, *, priority: int = 6) -> list[str]:
        """Wake-ups of new runs, the oldest first."""
        run_ids = [new_run_id(3) for _ in range(count)]
        for run_id in run_ids:
            self.client.lpush(self.key(priority), self.envelope(run_id, priority))
        return run_ids

    def envelope(self, run_id: str, priority: int = 6) -> bytes:
        kind = WakeUpKind.DELEGATE
        return self.template.fill(kind, "_", run_id, 1, f"{run_id}.1", None, "a", "retinue", priority)

    def key(self, priority: int = 6) -> str:
        return queue_key("retinue", priority, self.prefix)

    def waiting(self, priority: int = 6) -> list[str]:
        """The run ids in a list, the one popped next first."""
        envelopes: Any = self.client.lrange(self.key(priority), 0, -1)
        return [json.loads(one)["headers"]["argsrepr"] for one in reversed(envelopes)]

    def drain(self) -> None:
        """Receives what one pop brings."""
        self.connection.drain_events(timeout=30)

    def ask(self) -> None:
        """Sends a pop, as the worker's loop does, without waiting for its reply."""
        self.connection.transport.cycle.on_poll_start()

    @contextmanager
    def memory_limit(self) -> Iterator[None]:
        """The server has reached its limit."""
        self.client.config_set("maxmemory", 1)
        try:
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                self.client.set("probe", "x")
            yield
        finally:
            self.client.config_set("maxmemory", 0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def desk(store_server: PrivateServer, stack: ExitStack) -> Desk:
    store_server.flush()
    desk = Desk(store_server, stack)
    desk.consumer.consume()
    return desk


def test_one_pop_brings_as_many_messages_as_there_are_slots(desk: Desk) -> None:
    run_ids = desk.push(8)
    desk.slots = 5

    desk.drain()

    assert desk.received == run_ids[:5]
    assert desk.waiting() == run_ids[5:]


def test_one_pop_brings_sixteen_messages_at_most(desk: Desk) -> None:
    run_ids = desk.push(20)

    desk.drain()

    assert desk.received == run_ids[:16]


def test_messages_of_a_higher_priority_are_popped_first(desk: Desk) -> None:
    normal, resumed, low = desk.push(2, priority=6), desk.push(2, priority=0), desk.push(2, priority=9)

    for _ in range(3):
        desk.drain()

    assert desk.received == [*resumed, *normal, *low]


def test_queues_take_turns(store_server: PrivateServer, stack: ExitStack) -> None:
    store_server.flush()
    desk = Desk(store_server, stack)
    desk.consumer.add_queue(Queue("other", Exchange(""), routing_key="other"))
    desk.consumer.consume()
    desk.slots = 1
    first = desk.push(3)
    other = [new_run_id(3) for _ in range(2)]
    for run_id in other:
        desk.client.lpush(queue_key("other", 6), desk.envelope(run_id))

    for _ in range(5):
        desk.drain()

    assert desk.received.index(other[1]) < desk.received.index(first[2])


def test_a_prefix_of_all_keys_is_put_before_those_of_a_pop_too(
    store_server: PrivateServer, stack: ExitStack
) -> None:
    store_server.flush()
    desk = Desk(store_server, stack, prefix=PREFIX)
    desk.consumer.consume()
    run_ids = desk.push(3)
    desk.slots = 2
    desk.drain()
    desk.channel.put_back_message(desk.messages[1])

    desk.drain()

    assert desk.received == [*run_ids[:2], *run_ids[1:]]
    assert all(key.startswith((PREFIX, "_kombu")) for key in desk.client.scan_iter("*"))


def test_nothing_is_popped_without_a_free_slot(desk: Desk) -> None:
    run_ids = desk.push(1)
    desk.slots = 0

    with pytest.raises(TimeoutError):
        desk.connection.drain_events(timeout=0.2)

    assert desk.waiting() == run_ids


def test_a_reply_that_was_asked_for_is_read_though_the_slots_are_gone(desk: Desk) -> None:
    desk.slots = 1
    desk.ask()
    desk.slots = 0
    run_ids = desk.push(1)

    desk.drain()

    assert desk.received == run_ids


def test_a_channel_of_another_consumer_asks_for_no_slots(desk: Desk) -> None:
    desk.slots = 0

    assert not desk.channel.qos.can_consume()
    assert desk.connection.channel().qos.can_consume()


def test_a_message_whose_handler_fails_costs_only_itself(desk: Desk) -> None:
    run_ids = desk.push(3)
    desk.client.lpush(desk.key(), "no json")
    last = desk.push(1)
    desk.errors = {run_ids[0]: KeyError("which kombu takes for a lost connection")}

    desk.drain()

    assert desk.received == [*run_ids, *last]
    assert desk.waiting() == []


def test_an_exit_in_a_handler_puts_the_rest_back(desk: Desk) -> None:
    run_ids = desk.push(4)
    desk.errors = {run_ids[1]: SystemExit()}

    with pytest.raises(SystemExit):
        desk.drain()

    assert desk.waiting() == run_ids[2:]


def test_messages_without_a_consumer_are_put_back_in_their_order(desk: Desk) -> None:
    desk.ask()
    desk.consumer.cancel()
    run_ids = desk.push(3, priority=3)

    desk.channel._brpop_read()

    assert desk.received == []
    assert desk.waiting(3) == run_ids


def test_what_an_outstanding_pop_brings_is_put_back_when_the_intake_stops(desk: Desk) -> None:
    desk.ask()
    run_ids = desk.push(1)

    desk.channel.stop_intake()

    assert desk.received == []
    assert desk.waiting() == run_ids
    assert not desk.channel.qos.can_consume()


def test_what_an_outstanding_pop_brings_is_put_back_when_the_channel_closes(desk: Desk) -> None:
    desk.ask()
    run_ids = desk.push(1)

    desk.channel.close()

    assert desk.waiting() == run_ids


def test_messages_are_put_back_at_a_memory_limit(desk: Desk) -> None:
    run_ids = desk.push(3)
    desk.drain()

    with desk.memory_limit():
        assert desk.channel.put_back(desk.key(), [desk.envelope(run_id) for run_id in run_ids])

    assert desk.waiting() == run_ids


def test_one_delivered_message_goes_back_to_the_head_of_its_own_list(desk: Desk) -> None:
    run_ids = desk.push(2, priority=9)
    desk.slots = 1
    desk.drain()

    assert desk.channel.put_back_message(desk.messages[0])

    assert desk.waiting(9) == run_ids
    desk.drain()
    assert desk.messages[1].headers == desk.messages[0].headers


def test_a_message_that_cannot_be_put_back_is_given_up_without_an_error(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    # Of the wrong type, so that the server refuses.
    desk.client.set("text", "x")

    assert not desk.channel.put_back("text", [b"a", b"b"])
    assert "wakeups.not_put_back count=2" in caplog.text


def test_a_queue_is_declared_and_measured_at_a_memory_limit(desk: Desk) -> None:
    desk.push(2)
    desk.push(1, priority=0)

    with desk.memory_limit():
        declared = desk.channel.queue_declare("retinue")
        desk.channel.queue_bind("retinue", exchange="retinue", routing_key="another")

    assert declared.message_count == 3


def test_a_broadcast_reaches_a_queue_that_was_bound_at_a_memory_limit(desk: Desk) -> None:
    heard: list[object] = []
    news = Queue("listener", Exchange("news", "fanout"), auto_delete=True, expires=60)
    with desk.connection.channel() as channel, desk.memory_limit():
        consumer = desk.app.amqp.Consumer(channel, [news], accept=["json"], no_ack=True)
        consumer.register_callback(lambda body, _: heard.append(body))
        consumer.consume()
        desk.ask()
        while not desk.client.execute_command("PUBSUB", "NUMPAT"):
            pass
        with desk.app.producer_or_acquire() as producer:
            producer.publish("hello", exchange=news.exchange, serializer="json", declare=[news.exchange])
        desk.drain()

    assert heard == ["hello"]


def test_renewing_a_binding_at_a_memory_limit_is_not_an_error(desk: Desk) -> None:
    reply = Queue("reply", Exchange("answers", "direct"), routing_key="reply", expires=1)
    with desk.connection.channel() as channel:
        desk.app.amqp.Consumer(channel, [reply]).consume()
        with desk.memory_limit():
            channel._binding_expiry_refreshed_at = float("-inf")
            channel.maybe_refresh_binding_expiry()
        channel.maybe_refresh_binding_expiry()


def test_nothing_is_written_about_messages_that_were_popped(desk: Desk) -> None:
    desk.push(1)
    desk.drain()

    assert not [key for key in desk.client.scan_iter("*") if "unacked" in key]
    assert desk.channel.qos._delivered == {}


def test_a_task_message_looks_like_kombus_own(desk: Desk) -> None:
    payload = json.loads(desk.envelope(new_run_id(3)))
    ours = transport.WakeUpMessage(json.loads(json.dumps(payload)), channel=desk.channel)
    theirs = virtual.Message(payload, channel=desk.channel)

    for name in (
        "body",
        "headers",
        "properties",
        "delivery_info",
        "delivery_tag",
        "content_type",
        "content_encoding",
        "errors",
        "accept",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.decode() == theirs.decode()
    assert ours.raw == payload


def test_a_message_that_is_no_task_is_kombus_own(desk: Desk) -> None:
    payload = json.loads(desk.envelope(new_run_id(3)))
    payload["headers"] = {"ticket": "1"}

    assert transport.WakeUpMessage(payload, channel=desk.channel).headers == {"ticket": "1"}


@pytest.mark.parametrize(
    ("url", "channel"),
    [
        ("redis://localhost:6379/0", transport.Channel),
        ("rediss://localhost:6379/0", transport.Channel),
        ("unix:///run/server.sock?db=2", transport.Channel),
        ("sentinel://localhost:26379/mymaster", transport.SentinelChannel),
    ],
)
def test_every_redis_url_takes_our_channel(url: str, channel: type) -> None:
    app = create_app(Settings.read(store_url="redis://localhost:6379/0", broker_url=url))
    connection: Any = app.connection()

    assert connection.get_transport_cls().Channel is channel
    assert connection.clone().get_transport_cls().Channel is channel


def test_a_failover_to_another_url_takes_our_channel_too() -> None:
    connection: Any = create_app(Settings.read(store_url="redis://localhost:1/0")).connection()

    connection.switch("redis://localhost:2/0")

    assert (connection.port, connection.get_transport_cls()) == (2, transport.Transport)


def test_another_broker_keeps_its_own_transport() -> None:
    settings = Settings.read(store_url="redis://localhost:6379/0", broker_url="memory://")

    assert create_app(settings).connection().get_transport_cls().__module__ == "kombu.transport.memory"


def test_a_consumer_looks_for_a_broker_that_is_away_every_second_at_least() -> None:
    app = create_app(Settings.read(store_url="redis://127.0.0.1:1/0"))
    pauses: list[float] = []
    with app.connection_for_read() as connection, pytest.raises(OperationalError):
        # As Celery's consumer does, but not for ever.
        connection.ensure_connection(lambda error, pause_s: pauses.append(pause_s), 3)
    app.close()
    assert pauses
    assert max(pauses) <= 1.0


def test_sentinels_channel_has_the_same_changes() -> None:
    for name in ("_brpop_start", "_brpop_read", "_queue_bind", "_size", "maybe_refresh_binding_expiry"):
        assert getattr(transport.SentinelChannel, name) is getattr(transport.Channel, name)
    assert issubclass(transport.SentinelChannel, KombuSentinelChannel)


def test_a_unix_socket_carries_messages(stack: ExitStack) -> None:
    server = stack.enter_context(PrivateServer(unix_socket=True))
    desk = Desk(server, stack)
    app = create_app(Settings.read(store_url=server.unix_url))
    connection = stack.enter_context(app.connection_for_read())
    run_ids = desk.push(1)
    heard: list[str] = []
    consumer = app.amqp.TaskConsumer(
        connection, on_message=lambda message: heard.append(json.loads(message.body)[0][1])
    )
    consumer.consume()

    connection.drain_events(timeout=30)

    assert heard == run_ids
