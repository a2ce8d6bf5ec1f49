"""Both subscriptions against real servers: who is woken, when, and what a lost connection does."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest
import redis

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections.async_subscription import AsyncSubscriptions
from retinue.store.connections.subscription import Subscriptions
from retinue.testing.servers import PrivateServer


@pytest.fixture
def subscriptions(store_server: PrivateServer) -> Iterator[Subscriptions]:
    made = Subscriptions(store_server.url, client_name="listener", linger_s=0.2)
    yield made
    made.close()


@pytest.fixture
async def async_subscriptions(store_server: PrivateServer) -> AsyncIterator[AsyncSubscriptions]:
    made = AsyncSubscriptions(store_server.url, client_name="listener", linger_s=0.2)
    yield made
    await made.close()


@pytest.fixture
def publisher(store_server: PrivateServer) -> redis.Redis:
    return store_server.client(decode_responses=True)


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def listeners(publisher: redis.Redis) -> list[str]:
    return [entry["id"] for entry in publisher.client_list() if entry["name"] == "listener"]


def subscribers(publisher: redis.Redis, channel: str) -> int:
    return publisher.pubsub_numsub(channel)[0][1]


def test_a_message_wakes_the_watch_of_its_first_word_alone(
    subscriptions: Subscriptions, publisher: redis.Redis
):
    with (
        subscriptions.watch("c", "one") as one,
        subscriptions.watch("c", "two") as two,
        subscriptions.watch("other", "one") as other,
    ):
        publisher.publish("c", "one SUCCEEDED")
        assert one.wait(30)
        publisher.publish("c", "one-and-a-half")
        publisher.publish("c", "two")
        assert two.wait(30)
        assert not one.wait(0)
        assert not other.wait(0)


def test_ends_that_nobody_waits_for_do_not_keep_the_thread_busy_and_the_next_watch_hears_all(
    store_server: PrivateServer, publisher: redis.Redis
):
    subscriptions = Subscriptions(store_server.url, client_name="listener", linger_s=30)
    place = [("c", "k")]
    assert not subscriptions.hears(place)
    with subscriptions.watch_any(place):
        assert subscriptions.hears(place)
        assert not subscriptions.hears([("another", "k")])
    # Once nobody has waited for a while, the next message is the last that wakes the thread.
    until(lambda: publisher.publish("c", "other") == 1 and not subscriptions.hears(place))
    for _ in range(100):
        publisher.publish("c", "k")
    with subscriptions.watch_any(place) as wake:
        assert publisher.publish("c", "k") == 1
        assert wake.wait(30)
        assert subscriptions.hears(place)
    subscriptions.close()


def test_the_subscription_stands_when_the_watch_begins(subscriptions: Subscriptions, publisher: redis.Redis):
    for n in range(30):
        with subscriptions.watch(f"c{n}", "k") as wake:
            assert publisher.publish(f"c{n}", "k") == 1
            assert wake.wait(30)


def test_wait_rearms_itself_and_keeps_a_message_that_came_before(
    subscriptions: Subscriptions, publisher: redis.Redis
):
    with subscriptions.watch("c", "k") as wake, subscriptions.watch("c", "last") as last:
        assert not wake.wait(0)
        publisher.publish("c", "k")
        publisher.publish("c", "last")
        assert last.wait(30)
        assert wake.wait(0)
        assert not wake.wait(0)


def test_a_thousand_threads_wait_on_one_connection(subscriptions: Subscriptions, publisher: redis.Redis):
    entered, woken = threading.Semaphore(0), []

    def wait(n: int) -> None:
        with subscriptions.watch(f"c{n % 64}", f"run-{n}") as wake:
            entered.release()
            if wake.wait(60):
                woken.append(n)

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(1000)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=60)
    assert len(listeners(publisher)) == 1
    with publisher.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.publish(f"c{n % 64}", f"run-{n} done")
        pipe.execute()
    for thread in threads:
        thread.join(60)
    assert sorted(woken) == list(range(1000))


def test_ten_thousand_watches_share_a_channel(subscriptions: Subscriptions, publisher: redis.Redis):
    with ExitStack() as stack:
        started = time.process_time()
        wakes = [stack.enter_context(subscriptions.watch("c", f"run-{n}")) for n in range(10_000)]
        assert time.process_time() - started < 5
        publisher.publish("c", "run-7777 x")
        assert wakes[7777].wait(30)
        assert not any(wake.wait(0) for wake in wakes)


def test_a_channel_is_unsubscribed_a_while_after_its_last_watch(
    subscriptions: Subscriptions, publisher: redis.Redis
):
    with subscriptions.watch("c", "k"):
        with subscriptions.watch("c", "k"):
            assert subscribers(publisher, "c") == 1
        threading.Event().wait(0.5)  # longer than the channel lingers: the other watch must hold it
        assert subscribers(publisher, "c") == 1
    until(lambda: subscribers(publisher, "c") == 0)
    with subscriptions.watch("c", "k") as wake:
        publisher.publish("c", "k")
        assert wake.wait(30)


def test_a_cut_connection_is_replaced_and_everybody_looks_again(
    subscriptions: Subscriptions, publisher: redis.Redis
):
    with subscriptions.watch("c", "k") as wake, subscriptions.watch("d", "k") as other:
        for _ in range(3):
            [identity] = listeners(publisher)
            publisher.client_kill_filter(_id=identity)
            assert wake.wait(30)
            assert other.wait(30)
            assert publisher.publish("c", "k") == 1
            assert wake.wait(30)


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_without_a_server_a_watch_begins_woken_and_learns_of_its_return(kind: str):
    with PrivateServer(kind) as server:
        server.stop()
        subscriptions = Subscriptions(server.url, connect_timeout_s=60)
        started = time.monotonic()
        with subscriptions.watch("c", "k") as wake, subscriptions.watch("c", "l") as other:
            assert time.monotonic() - started < 30  # not after the time for connecting
            assert wake.wait(0)
            assert other.wait(0)
            assert not wake.wait(0.2)
            server.start()
            assert wake.wait(30)
            assert other.wait(30)
            server.client().publish("c", "k")
            assert wake.wait(30)
        subscriptions.close()


def test_a_frozen_server_is_noticed_by_its_silence():
    with PrivateServer() as server:
        subscriptions = Subscriptions(server.url, connect_timeout_s=0.3, ping_every_s=0.2)
        with subscriptions.watch("c", "k") as wake:
            server.pause()
            with subscriptions.watch("d", "k") as late:  # cannot be confirmed: does not wait for ever
                assert late.wait(0)
            until(lambda: subscriptions._listener._interests.down)  # pyright: ignore
            server.resume()
            assert wake.wait(30)
        subscriptions.close()


def test_closing_wakes_the_waiters_and_ends_the_thread(subscriptions: Subscriptions):
    woken = threading.Event()
    entered = threading.Event()

    def wait() -> None:
        with subscriptions.watch("c", "k") as wake:
            entered.set()
            if wake.wait(30):
                woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert entered.wait(30)
    listening = subscriptions._listener  # pyright: ignore[reportPrivateUsage]
    subscriptions.close()
    assert woken.wait(30)
    thread.join()
    assert listening is not None
    assert not listening._thread.is_alive()  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(StoreUnavailableError, match="closed"), subscriptions.watch("c", "k"):
        pass


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_listens_on_a_connection_of_its_own(
    subscriptions: Subscriptions, publisher: redis.Redis
):
    with subscriptions.watch("c", "parent") as wake:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with subscriptions.watch("c", "child") as own:
                    status = 0 if own.wait(30) else 2
            finally:
                os._exit(status)
        until(lambda: subscribers(publisher, "c") == 2)
        publisher.publish("c", "child")
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        publisher.publish("c", "parent")
        assert wake.wait(30)


async def test_async_a_message_wakes_the_watch_of_its_first_word_alone(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    async with (
        async_subscriptions.watch("c", "one") as one,
        async_subscriptions.watch("c", "two") as two,
    ):
        assert not await one.wait(0)
        publisher.publish("c", "one SUCCEEDED")
        assert await one.wait(30)
        publisher.publish("c", "two")
        assert await two.wait(30)
        assert not await one.wait(0)


async def test_async_the_subscription_stands_when_the_watch_begins(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    for n in range(30):
        async with async_subscriptions.watch(f"c{n}", "k") as wake:
            assert publisher.publish(f"c{n}", "k") == 1
            assert await wake.wait(30)


async def test_async_a_thousand_tasks_wait_on_one_connection(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    entered, woken = asyncio.Semaphore(0), []

    async def wait(n: int) -> None:
        async with async_subscriptions.watch(f"c{n % 64}", f"run-{n}") as wake:
            entered.release()
            if await wake.wait(30):
                woken.append(n)

    tasks = [asyncio.create_task(wait(n)) for n in range(1000)]
    for _ in tasks:
        await entered.acquire()
    assert len(listeners(publisher)) == 1
    with publisher.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.publish(f"c{n % 64}", f"run-{n} done")
        pipe.execute()
    await asyncio.gather(*tasks)
    assert sorted(woken) == list(range(1000))


async def test_async_ten_thousand_watches_share_a_channel(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    async with AsyncExitStack() as stack:
        wakes = [
            await stack.enter_async_context(async_subscriptions.watch("c", f"run-{n}")) for n in range(10_000)
        ]
        publisher.publish("c", "run-7777 x")
        assert await wakes[7777].wait(30)
        assert not any([await wake.wait(0) for wake in wakes[:100]])


async def test_async_a_channel_is_unsubscribed_a_while_after_its_last_watch(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    async with async_subscriptions.watch("c", "k"):
        async with async_subscriptions.watch("c", "k"):
            pass
        await asyncio.sleep(0.5)  # longer than the channel lingers: the other watch must hold it
        assert subscribers(publisher, "c") == 1
    await asyncio.to_thread(until, lambda: subscribers(publisher, "c") == 0)
    async with async_subscriptions.watch("c", "k") as wake:
        publisher.publish("c", "k")
        assert await wake.wait(30)


async def test_async_a_cut_connection_is_replaced_and_everybody_looks_again(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    async with async_subscriptions.watch("c", "k") as wake, async_subscriptions.watch("d", "k") as other:
        for _ in range(3):
            [identity] = listeners(publisher)
            publisher.client_kill_filter(_id=identity)
            assert await wake.wait(30)
            assert await other.wait(30)
            assert publisher.publish("c", "k") == 1
            assert await wake.wait(30)


@pytest.mark.parametrize("kind", ["valkey", "redis"])
async def test_async_without_a_server_a_watch_begins_woken_and_learns_of_its_return(kind: str):
    with PrivateServer(kind) as server:
        server.stop()
        subscriptions = AsyncSubscriptions(server.url, connect_timeout_s=60)
        async with subscriptions.watch("c", "k") as wake, subscriptions.watch("c", "l") as other:
            assert await wake.wait(0)
            assert await other.wait(0)
            assert not await wake.wait(0.2)
            await asyncio.to_thread(server.start)
            assert await wake.wait(30)
            assert await other.wait(30)
            server.client().publish("c", "k")
            assert await wake.wait(30)
        await subscriptions.close()


async def test_async_a_frozen_server_is_noticed_by_its_silence():
    with PrivateServer() as server:
        subscriptions = AsyncSubscriptions(server.url, connect_timeout_s=0.3, ping_every_s=0.2)
        async with subscriptions.watch("c", "k") as wake:
            server.pause()
            async with subscriptions.watch("d", "k") as late:
                assert await late.wait(0)
            [listening] = subscriptions._listeners.values()  # pyright: ignore[reportPrivateUsage]
            await asyncio.to_thread(until, lambda: listening.interests.down)
            server.resume()
            assert await wake.wait(30)
        await subscriptions.close()


async def test_async_closing_wakes_the_waiters(async_subscriptions: AsyncSubscriptions):
    entered = asyncio.Event()

    async def wait() -> bool:
        async with async_subscriptions.watch("c", "k") as wake:
            entered.set()
            return await wake.wait(30)

    waiting = asyncio.create_task(wait())
    await entered.wait()
    await async_subscriptions.close()
    assert await waiting
    with pytest.raises(StoreUnavailableError, match="closed"):
        async with async_subscriptions.watch("c", "k"):
            pass


async def test_async_a_cancelled_waiter_leaves_nothing_behind(
    async_subscriptions: AsyncSubscriptions, publisher: redis.Redis
):
    async def wait(n: int) -> None:
        async with async_subscriptions.watch("c", f"run-{n}") as wake:
            await wake.wait()

    tasks = [asyncio.create_task(wait(n)) for n in range(100)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    [listening] = async_subscriptions._listeners.values()  # pyright: ignore[reportPrivateUsage]
    assert listening.interests.idle()
    await asyncio.to_thread(until, lambda: subscribers(publisher, "c") == 0)
