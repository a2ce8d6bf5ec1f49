"""The faulty way to a server: each fault as a client meets it, and no fault without being asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

BIG = "x" * 300_000


@pytest.fixture
def proxy(valkey_server: PrivateServer) -> Iterator[FaultProxy]:
    valkey_server.flush()
    with FaultProxy(valkey_server.port) as made:
        yield made


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[redis.Redis]:
    """By way of the proxy, without any patience; connected."""
    with _client(proxy) as made:
        made.ping()
        yield made


@pytest.fixture
def direct(valkey_server: PrivateServer) -> redis.Redis:
    return valkey_server.client()


def _client(proxy: FaultProxy, timeout_s: float = 1.0) -> redis.Redis:
    return redis.Redis(port=proxy.port, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0))


def _wait(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_a_fault_bytes_pass_unchanged(client: redis.Redis, proxy: FaultProxy) -> None:
    assert client.set("k", BIG)
    assert client.get("k") == BIG.encode()
    assert proxy.accepted == 1


@pytest.mark.parametrize(
    ("loss", "carried_out"), [(Loss.REQUEST, False), (Loss.REPLY, True), (Loss.SILENCE, True)]
)
def test_a_lost_request_is_carried_out_or_not_as_asked(
    client: redis.Redis, direct: redis.Redis, proxy: FaultProxy, loss: Loss, carried_out: bool
) -> None:
    proxy.lose(loss, to=b"INCR")
    client.get("n")
    kind = redis.TimeoutError if loss is Loss.SILENCE else redis.ConnectionError
    with pytest.raises(kind) as failed:
        client.incr("n")
    assert isinstance(failed.value, redis.TimeoutError) == (loss is Loss.SILENCE)
    assert direct.get("n") == (b"1" if carried_out else None)
    # Only the one that was asked for.
    assert client.incr("n") == (2 if carried_out else 1)


def test_a_cut_after_the_reply_lets_the_reply_pass(client: redis.Redis, proxy: FaultProxy) -> None:
    proxy.lose(Loss.AFTER_REPLY, to=b"INCR")
    with client.client() as one:
        assert one.incr("n") == 1
        with pytest.raises(redis.ConnectionError):
            one.ping()


def test_the_word_may_lie_across_two_packets(client: redis.Redis, proxy: FaultProxy) -> None:
    proxy.lose(Loss.REQUEST, to=b"yz")
    raw = client.connection_pool.get_connection()
    raw.send_packed_command([b"*2\r\n$4\r\nECHO\r\n$3\r\nxy"])
    _wait(lambda: proxy.accepted > 0)
    raw.send_packed_command([b"z\r\n"])
    with pytest.raises(redis.ConnectionError):
        raw.read_response()
    raw.disconnect()


def test_late_bytes_are_late_in_each_direction_and_do_not_queue_up(
    client: redis.Redis, proxy: FaultProxy
) -> None:
    proxy.delay(0.1)
    with _client(proxy, 30) as patient:
        patient.ping()
        started = time.monotonic()
        with patient.pipeline(transaction=False) as pipe:
            for _ in range(20):
                pipe.set("k", BIG)
            pipe.execute()
        took_s = time.monotonic() - started
    # One after the other, those hundred pieces or so would take ten seconds.
    assert 0.2 <= took_s < 8


def test_dripping_replies_arrive_whole(client: redis.Redis, proxy: FaultProxy) -> None:
    client.set("k", "0123456789")
    proxy.trickle(2, 0.01)
    started = time.monotonic()
    assert client.get("k") == b"0123456789"
    assert time.monotonic() - started > 0.05


def test_a_reset_ends_what_is_open_and_nothing_else(client: redis.Redis, proxy: FaultProxy) -> None:
    with client.client() as one:
        one.ping()
        proxy.reset_connections()
        with pytest.raises(redis.ConnectionError, match=r"104|reset"):
            one.ping()
        assert one.ping()


def test_a_black_hole_is_silent_on_both_sides(
    client: redis.Redis, direct: redis.Redis, proxy: FaultProxy
) -> None:
    with client.client() as one:
        one.ping()
        before = len(direct.client_list())
        proxy.black_hole()
        with pytest.raises(redis.TimeoutError):
            one.ping()
        # The client has hung up; the server has not heard of it.
        assert len(direct.client_list()) == before
        assert one.ping()


def test_a_black_hole_may_swallow_new_connections_until_it_is_healed(proxy: FaultProxy) -> None:
    proxy.black_hole(new_too=True)
    with pytest.raises(redis.TimeoutError), _client(proxy) as late:
        late.ping()
    proxy.heal()
    with _client(proxy) as healed:
        assert healed.ping()


def test_a_shut_door_refuses_and_opens_again_on_the_same_port(client: redis.Redis, proxy: FaultProxy) -> None:
    with client.client() as one:
        one.ping()
        proxy.refuse()
        assert one.ping(), "an open connection lives on"
        with pytest.raises(redis.ConnectionError, match="refused"), _client(proxy) as late:
            late.ping()
    proxy.admit()
    with _client(proxy) as again:
        assert again.ping()


def test_a_server_that_is_away_ends_the_clients_connection() -> None:
    with FaultProxy(1) as nowhere, pytest.raises(redis.ConnectionError), _client(nowhere) as client:
        client.ping()
