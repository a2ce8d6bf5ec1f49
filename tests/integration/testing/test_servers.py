"""Private servers: both kinds, and everything that a test may do to one."""

from __future__ import annotations

import socket

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retinue.testing import servers
from retinue.testing.processes import ProcessFailedError
from retinue.testing.servers import PrivateServer, ServerKind


def _impatient(server: PrivateServer) -> redis.Redis:
    return redis.Redis(port=server.port, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))


def _fill(client: redis.Redis, *, chunks: int) -> None:
    for number in range(chunks):
        client.set(f"chunk {number}", "x" * 100_000)


@pytest.fixture
def kind(store_server: PrivateServer) -> ServerKind:
    """Each kind in turn, where it is installed."""
    return store_server.kind


def test_the_shared_server_is_of_the_kind_it_says(store_server: PrivateServer) -> None:
    info = store_server.client().info("server")

    assert ("valkey_version" in info) == (store_server.kind is ServerKind.VALKEY)


@pytest.mark.parametrize("test", ["one", "the next"])
def test_an_address_is_of_an_empty_store(fresh_store_url: str, test: str) -> None:
    with redis.Redis.from_url(fresh_store_url) as client:
        assert client.dbsize() == 0
        client.set("left by", test)


def test_the_address_of_valkey_is_of_an_empty_store(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        assert client.dbsize() == 0
        assert "valkey_version" in client.info("server")


def test_writes_are_refused_rather_than_keys_evicted(kind: ServerKind) -> None:
    with PrivateServer(kind, maxmemory="1mb") as server:
        assert server.client().config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        with pytest.raises(redis.ResponseError, match="maxmemory"):
            _fill(server.client(), chunks=100)


def test_a_password_is_asked_for_and_is_in_the_address(kind: ServerKind) -> None:
    with PrivateServer(kind, password="open/sesame @1") as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with _impatient(server) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


def test_the_unix_socket_leads_to_the_same_server(kind: ServerKind) -> None:
    with PrivateServer(kind, unix_socket=True, password="sesame") as server:
        server.client().set("name", "value")
        with redis.Redis.from_url(server.unix_url) as client:
            assert client.get("name") == b"value"


def test_without_a_unix_socket_there_is_no_address_of_one() -> None:
    server = PrivateServer()

    with pytest.raises(ValueError, match="unix_socket=True"):
        _ = server.unix_url
    server.close()


def test_further_directives_reach_the_server(kind: ServerKind) -> None:
    with PrivateServer(kind, config={"appendfsync": "always", "save": "60 1"}) as server:
        config = server.client().config_get("appendfsync", "save")

    assert config == {"appendfsync": "always", "save": "60 1"}


def test_data_in_an_append_only_file_survives_a_kill(kind: ServerKind) -> None:
    with PrivateServer(kind, appendonly=True, config={"appendfsync": "always"}) as server:
        server.client().set("name", "value")
        before = server.process.pid, server.url

        server.kill()
        server.start()

        assert server.client().get("name") == b"value"
        assert server.process.pid != before[0]
        assert server.url == before[1]


def test_data_in_memory_does_not_survive_a_restart(kind: ServerKind) -> None:
    with PrivateServer(kind) as server:
        server.client().set("name", "value")

        server.restart()

        assert server.client().get("name") is None


def test_a_paused_server_does_not_answer_until_it_is_resumed(kind: ServerKind) -> None:
    with PrivateServer(kind) as server, _impatient(server) as client:
        assert client.ping()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()

        server.resume()
        assert client.ping()


def test_a_paused_server_can_be_stopped() -> None:
    with PrivateServer() as server:
        server.pause()
        server.stop()

        with pytest.raises(ProcessFailedError, match="not running"):
            _ = server.process


def test_a_closed_server_leaves_no_process_and_no_files(kind: ServerKind) -> None:
    with PrivateServer(kind) as server:
        process = server.process

    assert not process.running
    assert not server.directory.exists()


def test_a_port_that_was_taken_meanwhile_is_given_up(
    kind: ServerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PrivateServer(kind) as first, PrivateServer(kind) as second:
        free = second.port
        second.stop()
        offered = iter([first.port, free])
        monkeypatch.setattr(servers, "_free_port", lambda: next(offered))

        with PrivateServer(kind) as third:
            assert third.port == free


def test_a_wrong_directive_is_an_error_with_the_server_s_words(kind: ServerKind) -> None:
    server = PrivateServer(kind, config={"no-such-directive": "1"})

    with pytest.raises(ProcessFailedError, match="no-such-directive") as caught:
        server.start()

    assert "ended before it answered" in str(caught.value.args[0])
    server.close()


def test_a_server_that_is_not_installed_is_named_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    server = PrivateServer(ServerKind.REDIS)

    with pytest.raises(ProcessFailedError, match="install redis-server"):
        server.start()
    server.close()


def test_a_restart_never_answers_from_another_server_on_its_port() -> None:
    with PrivateServer() as server:
        server.stop()
        with socket.create_server(("127.0.0.1", server.port)), pytest.raises(ProcessFailedError):
            server.start()
