"""Both links against real servers: order, cuts, time-outs, restarts, memory limits, forks."""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from retinue.contract.errors import (
    StoreError,
    StoreMemoryError,
    StoreReplyError,
    StoreUnavailableError,
)
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.store.script import Script
from retinue.testing.servers import PrivateServer

ECHO = Script.from_text("echo", "#!lua\nreturn {KEYS[1], ARGV[1]}")
WRITE = Script.from_text("write", "#!lua\nreturn redis.call('SET', KEYS[1], ARGV[1])")
OLD_STYLE_WRITE = Script.from_text("old", "return redis.call('SET', KEYS[1], ARGV[1])")


class Both:
    """One link of each colour behind one asynchronous face, so that a test runs over both."""

    def __init__(self, colour: str, url: str, **options: object) -> None:
        self.link: AsyncLink | SyncLink = (
            AsyncLink(url, **options) if colour == "async" else SyncLink(url, **options)  # pyright: ignore
        )

    async def _run(self, name: str, *args: object):
        call = getattr(self.link, name)
        if isinstance(self.link, AsyncLink):
            return await call(*args)
        return await asyncio.to_thread(call, *args)

    async def execute(self, *args: object):
        return await self._run("execute", *args)

    async def evalsha(self, *args: object):
        return await self._run("evalsha", *args)

    async def pipeline(self, *args: object):
        return await self._run("pipeline", *args)

    async def close(self) -> None:
        await self._run("close")


@pytest.fixture(params=["async", "sync"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def link(colour: str, fresh_store_url: str) -> AsyncIterator[Both]:
    both = Both(colour, fresh_store_url)
    yield both
    await both.close()


@pytest.fixture
async def async_link(fresh_store_url: str) -> AsyncIterator[AsyncLink]:
    link = AsyncLink(fresh_store_url)
    yield link
    await link.close()


class SilentServer:
    """Lets clients in, answers the greeting and then whatever the test says; nothing by default."""

    def __init__(self, greets: bool = True) -> None:
        self.greets = greets
        self.greets_after_s = 0.0
        self.accepted = 0
        self.reply = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                if b"PING" in data and self.greets:
                    time.sleep(self.greets_after_s)
                    client.sendall(b"+PONG\r\n")
                elif self.reply:
                    client.sendall(self.reply)
        except OSError:
            pass

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for client in self._open:
            client.close()


@pytest.fixture
def silent_server() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


async def test_replies_come_raw(link: Both):
    assert await link.execute("SET", "a", 1) == b"OK"
    assert await link.execute("GET", "a") == b"1"
    assert await link.execute("GET", "none") is None
    assert await link.execute("INCRBYFLOAT", "a", 0.5) == b"1.5"
    assert await link.execute("RPUSH", "l", b"\x00\xff", "é") == 2
    assert await link.execute("LRANGE", "l", 0, -1) == [b"\x00\xff", "é".encode()]


async def test_an_argument_that_is_neither_text_nor_number_sends_nothing(link: Both):
    for wrong in (None, ["list"], "\ud800"):
        with pytest.raises((TypeError, UnicodeEncodeError)):
            await link.execute("SET", "a", wrong)
    assert await link.execute("EXISTS", "a") == 0


async def test_an_error_reply_is_raised_with_its_text(link: Both):
    await link.execute("SET", "text", "x")
    with pytest.raises(StoreReplyError, match="not an integer"):
        await link.execute("INCR", "text")
    with pytest.raises(StoreReplyError, match="WRONGTYPE"):
        await link.execute("LPUSH", "text", 1)


async def test_a_pipeline_answers_in_order_and_keeps_errors_in_their_place(link: Both):
    await link.execute("SCRIPT", "FLUSH")
    replies = await link.pipeline(
        [("SET", "n", 1), (ECHO, ["k"], ["1"]), ("LPUSH", "n", 1), (ECHO, ["k"], ["2"]), ("INCR", "n")]
    )
    assert replies[:2] == [b"OK", [b"k", b"1"]]
    assert isinstance(replies[2], StoreReplyError)
    assert replies[3:] == [[b"k", b"2"], 2]
    assert await link.pipeline([]) == []


async def test_a_script_is_taught_again_after_a_script_flush(link: Both):
    assert await link.evalsha(ECHO, ["k"], [1]) == [b"k", b"1"]
    assert await link.execute("SCRIPT", "EXISTS", ECHO.sha) == [1]
    await link.execute("SCRIPT", "FLUSH")
    assert await link.evalsha(ECHO, ["k"], [2]) == [b"k", b"2"]
    assert await link.execute("SCRIPT", "EXISTS", ECHO.sha) == [1]


async def test_commands_of_one_tick_leave_in_one_write_and_answer_in_order(async_link: AsyncLink):
    await async_link.execute("PING")
    writes, commands = async_link.round_trips, async_link.commands
    replies = await asyncio.gather(*(async_link.execute("ECHO", n) for n in range(1000)))
    assert [int(reply) for reply in replies] == list(range(1000))
    assert async_link.round_trips == writes + 1
    assert async_link.commands == commands + 1000


async def test_large_values_pass_both_ways(link: Both):
    value = os.urandom(5_000_000)
    await link.execute("SET", "big", value)
    assert await link.execute("GET", "big") == value


async def test_a_cancelled_caller_does_not_shift_the_replies_of_others(async_link: AsyncLink):
    await async_link.execute("PING")
    blocked = asyncio.create_task(async_link.execute("BLPOP", "nothing", 0.2))
    given_up = [asyncio.create_task(async_link.execute("ECHO", f"gone-{n}")) for n in range(5)]
    given_up.append(asyncio.create_task(async_link.pipeline([("ECHO", "gone"), ("ECHO", "too")])))
    kept = [asyncio.create_task(async_link.execute("ECHO", n)) for n in range(5)]
    await asyncio.sleep(0)
    for task in given_up:
        task.cancel()
    assert [int(reply) for reply in await asyncio.gather(*kept)] == list(range(5))
    assert await blocked is None
    assert async_link.connected


async def test_a_cancelled_caller_does_not_end_the_connecting_of_others(async_link: AsyncLink):
    first = asyncio.create_task(async_link.execute("ECHO", "first"))
    second = asyncio.create_task(async_link.execute("ECHO", "second"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == b"second"


async def test_a_killed_connection_is_replaced_at_the_next_use(link: Both, store_server: PrivateServer):
    own = await link.execute("CLIENT", "ID")
    assert store_server.client().execute_command("CLIENT", "KILL", "ID", own) == 1
    assert await link.execute("CLIENT", "ID") != own


def blocked_connection(server: PrivateServer) -> str:
    """The id of the connection that waits in BLPOP, once one does."""
    client = server.client(decode_responses=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for entry in client.client_list():
            if entry["cmd"] == "blpop":
                return entry["id"]
        time.sleep(0.01)
    raise AssertionError("no connection waits in BLPOP")


async def kill_while_blocked(server: PrivateServer) -> None:
    """Cut the connection that waits in BLPOP."""
    identity = await asyncio.to_thread(blocked_connection, server)
    server.client().execute_command("CLIENT", "KILL", "ID", identity)


async def test_a_command_cut_in_flight_is_sent_again_once(link: Both, store_server: PrivateServer):
    waiting = asyncio.create_task(link.execute("BLPOP", "list", 8))
    await kill_while_blocked(store_server)
    store_server.client().lpush("list", "late")
    assert await waiting == [b"list", b"late"]


async def test_a_command_cut_in_flight_fails_without_retries(
    colour: str, fresh_store_url: str, store_server: PrivateServer
):
    link = Both(colour, fresh_store_url, retries=0)
    waiting = asyncio.create_task(link.execute("BLPOP", "list", 8))
    await kill_while_blocked(store_server)
    with pytest.raises(StoreUnavailableError):
        await waiting
    assert await link.execute("PING") == b"PONG"
    await link.close()


async def test_a_pipeline_cut_in_flight_is_never_repeated(link: Both, store_server: PrivateServer):
    waiting = asyncio.create_task(link.pipeline([("INCR", "n"), ("BLPOP", "list", 8)]))
    await kill_while_blocked(store_server)
    with pytest.raises(StoreUnavailableError):
        await waiting
    assert await link.execute("GET", "n") == b"1"


@pytest.mark.parametrize("kind", ["valkey", "redis"])
async def test_a_restarted_server_is_found_again_with_its_data(colour: str, kind: str):
    with PrivateServer(kind, appendonly=True) as server:
        link = Both(colour, server.url, connect_timeout_s=20)
        assert await link.evalsha(WRITE, ["k"], ["v"]) == b"OK"
        server.stop()
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="cannot be reached"):
                await link.execute("GET", "k")
        server.start()
        assert await link.execute("GET", "k") == b"v"
        assert await link.evalsha(WRITE, ["k"], ["w"]) == b"OK"
        await link.close()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
async def test_at_the_memory_limit_writes_fail_as_such_also_inside_scripts(colour: str, kind: str):
    with PrivateServer(kind) as server:
        link = Both(colour, server.url)
        await link.execute("SET", "k", "x" * 1000)
        await link.evalsha(OLD_STYLE_WRITE, ["k"], ["v"])
        server.client().config_set("maxmemory", 1)
        for attempt in (
            link.execute("SET", "k", "v"),
            link.evalsha(WRITE, ["k"], ["v"]),
            link.evalsha(OLD_STYLE_WRITE, ["k"], ["v"]),
        ):
            with pytest.raises(StoreMemoryError):
                await attempt
        replies = await link.pipeline([("SET", "k", "v"), ("GET", "k")])
        assert isinstance(replies[0], StoreMemoryError)
        assert replies[1] == b"v"
        await link.close()


async def test_a_refused_connection_fails_at_once_and_names_the_place_without_the_password(colour: str):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        link = Both(colour, f"redis://:hunter2@127.0.0.1:{port}", connect_timeout_s=60)
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port} db 0") as caught:
            await link.execute("PING")
        assert time.monotonic() - started < 30
        assert "hunter2" not in str(caught.value)
        await link.close()


async def test_a_server_that_never_greets_fails_within_the_connect_timeout(colour: str):
    server = SilentServer(greets=False)
    link = Both(colour, server.url, connect_timeout_s=0.3, timeout_s=60)
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError):
        await link.execute("GET", "a")
    assert 0.25 < time.monotonic() - started < 30  # and not that for a reply
    await link.close()
    server.close()


async def test_a_reply_that_never_comes_times_out_and_the_connection_is_dropped(
    colour: str, silent_server: SilentServer
):
    link = Both(colour, silent_server.url, connect_timeout_s=60, timeout_s=1)
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="no reply within 1 s"):
        await link.execute("GET", "a")
    assert 0.9 < time.monotonic() - started < 30  # and not that for connecting
    silent_server.reply = b"$5\r\nright\r\n"
    assert await link.execute("GET", "b") == b"right"
    assert silent_server.accepted == 2
    await link.close()


def test_a_limit_of_which_connecting_takes_a_part_is_told_whole(silent_server: SilentServer):
    silent_server.greets_after_s = 0.5
    link = SyncLink(silent_server.url, connect_timeout_s=60, timeout_s=60)
    with pytest.raises(StoreUnavailableError, match="no reply within 2 s"):
        link.pipeline([("ECHO", "x")], limit_s=2)
    link.close()


async def test_the_timeout_counts_for_each_command_and_not_for_the_connection(store_server: PrivateServer):
    link = AsyncLink(store_server.url, timeout_s=2)
    for _ in range(4):
        assert await link.execute("BLPOP", "nothing", 0.6) is None
    assert link.connected
    await link.close()


async def test_a_late_reply_never_meets_the_next_command(colour: str, store_server: PrivateServer):
    link = Both(colour, store_server.url, timeout_s=1)
    with pytest.raises(StoreUnavailableError):
        await link.execute("BLPOP", "nothing", 1.5)
    for n in range(20):
        assert await link.execute("ECHO", n) == str(n).encode()
    await link.close()


async def test_a_server_that_speaks_something_else_is_dropped(colour: str, silent_server: SilentServer):
    silent_server.reply = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    link = Both(colour, silent_server.url, retries=0)
    with pytest.raises(StoreUnavailableError):
        await link.execute("GET", "a")
    await link.close()


async def test_an_unasked_reply_drops_the_connection(silent_server: SilentServer):
    link = AsyncLink(silent_server.url)
    silent_server.reply = b"+one\r\n+two\r\n"
    assert await link.execute("GET", "a") == b"one"
    silent_server.reply = b"+three\r\n"
    assert await link.execute("GET", "a") == b"three"
    assert silent_server.accepted == 2
    await link.close()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
async def test_password_database_and_name_are_used_over_tcp_and_unix_sockets(colour: str, kind: str):
    with PrivateServer(kind, password="s/ec@ret", unix_socket=True) as server:
        for url in (server.url.replace("/0", "/5"), server.unix_url.replace("db=0", "db=5")):
            link = Both(colour, url, client_name="retinue test")
            info = (await link.execute("CLIENT", "INFO")).decode()
            assert "name=retinue-test " in info
            assert "db=5 " in info
            await link.close()
        wrong = Both(colour, server.url.replace("ret@", "wrong@"))
        with pytest.raises(StoreUnavailableError, match=r"refuses the credentials.*To mend: .*the password"):
            await wrong.execute("PING")
        await wrong.close()
        without = Both(colour, f"redis://127.0.0.1:{server.port}")
        with pytest.raises(StoreUnavailableError, match="refuses the credentials"):
            await without.execute("PING")
        await without.close()
        beyond = Both(colour, server.url.replace("/0", "/9999"))
        with pytest.raises(StoreUnavailableError, match=r"refuses the database 9999.*To mend: .*number"):
            await beyond.execute("PING")
        await beyond.close()


async def test_a_closed_link_stays_closed_and_fails_whoever_waits(async_link: AsyncLink, valkey_url: str):
    await async_link.execute("PING")
    waiting = asyncio.create_task(async_link.execute("BLPOP", "nothing", 5))
    connecting = AsyncLink(valkey_url)
    asked = asyncio.create_task(connecting.execute("PING"))
    await asyncio.sleep(0)
    for link, task in ((async_link, waiting), (connecting, asked)):
        await link.close()
        with pytest.raises(StoreUnavailableError, match="closed"):
            await task
        with pytest.raises(StoreUnavailableError, match="closed"):
            await link.execute("PING")
    sync = SyncLink(valkey_url)
    sync.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        sync.execute("PING")


def test_one_link_serves_several_event_loops_one_after_the_other(valkey_url: str):
    link = AsyncLink(valkey_url)

    async def use() -> int:
        identity = await link.execute("CLIENT", "ID")
        await link._lanes[asyncio.get_running_loop()].close()  # pyright: ignore[reportPrivateUsage]
        return identity

    assert asyncio.run(use()) != asyncio.run(use())


def test_many_threads_share_a_few_connections(store_server: PrivateServer):
    link = SyncLink(store_server.url, max_connections=3, client_name="crowd")
    wrong: list[str] = []

    def use(name: int) -> None:
        for n in range(20):
            sent = f"{name}-{n}"
            if link.execute("ECHO", sent) != sent.encode():
                wrong.append(sent)

    threads = [threading.Thread(target=use, args=(name,)) for name in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    names = [entry["name"] for entry in store_server.client(decode_responses=True).client_list()]
    assert 1 <= names.count("crowd") <= 3
    link.close()


def test_a_caller_who_gets_no_free_connection_is_told_so(valkey_server: PrivateServer):
    link = SyncLink(valkey_server.url, max_connections=1)
    waiting = threading.Thread(target=lambda: link.execute("BLPOP", "list", 8))
    waiting.start()
    blocked_connection(valkey_server)
    link.timeout_s = 0.1
    with pytest.raises(StoreUnavailableError, match="all 1 connections"):
        link.execute("PING")
    valkey_server.client().lpush("list", "x")
    waiting.join()
    link.close()


def test_an_interrupted_call_closes_its_connection(valkey_url: str):
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    link = SyncLink(valkey_url, max_connections=1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):  # noqa: PT012 - it may come before the call
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            link.execute("BLPOP", "nothing", 3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert link.execute("ECHO", "mine") == b"mine"
    link.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own(store_server: PrivateServer):
    link = SyncLink(store_server.url, max_connections=1)
    own = link.execute("CLIENT", "ID")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, str(link.execute("CLIENT", "ID")).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as answer:
        assert int(answer.read()) != own
    assert link.execute("CLIENT", "ID") == own
    link.close()


async def test_nothing_of_a_link_shows_its_password(colour: str, silent_server: SilentServer):
    link = Both(colour, silent_server.url.replace("//", "//:hunter2@"), connect_timeout_s=0.3)
    silent_server.greets = False
    silent_server.reply = b"-WRONGPASS invalid username-password pair\r\n+PONG\r\n"
    with pytest.raises(StoreError) as caught:
        await link.execute("PING")
    assert "hunter2" not in f"{link.link!r} {caught.value}"
    await link.close()
