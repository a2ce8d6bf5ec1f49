"""Places at providers with limits: who gets one, in which order, and how they come free again."""

from __future__ import annotations

import itertools
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from tests.integration.store.stage import Runner, Stage

from retinue.store import keys
from retinue.store.operations import provider_places
from retinue.store.operations.provider_places import ASK_AGAIN_MS, HELD_MS, ProviderLimits
from retinue.testing.servers import PrivateServer

_numbers = itertools.count(1)
ONE = ProviderLimits(max_concurrency=1)


class Desk:
    """One provider of the test's own, and those who ask for it."""

    def __init__(self, stage: Stage, runner: Runner, limits: ProviderLimits) -> None:
        self.name = f"p-{secrets.token_hex(4)}"
        self.limits = limits
        self.server = stage.server
        self._runner = runner
        self.buckets, self.held, self.queue, self.asked = keys.provider_places(self.name)

    def place(self, process: str = "p1") -> str:
        return f"{process}:token:{next(_numbers)}"

    def ask(self, place: str, *, tokens: int = 0) -> int:
        return self._runner.run(provider_places.acquire_place(self.name, place, self.limits, tokens=tokens))

    def leave(self, place: str, *, unused_tokens: int = 0, closed_ms: int = 0) -> None:
        call = provider_places.release_place(
            self.name, place, self.limits, unused_tokens=unused_tokens, closed_ms=closed_ms
        )
        self._runner.run(call)

    def bury(self, process: str) -> int:
        return self._runner.run(provider_places.free_places(self.name, process, self.limits))

    def renew(self, place: str) -> None:
        self._runner.run(provider_places.renew_place(self.name, place))

    def now_ms(self) -> int:
        seconds, micros = self.server.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def turn_back(self, ms: int) -> None:
        """Makes all that is stored so much older: what would be after as long a time."""
        for key in (self.held, self.queue, self.asked):
            for member in self.server.zrange(key, 0, -1):
                self.server.zincrby(key, -ms, member)
        for field in ("at", "nb"):
            if self.server.hexists(self.buckets, field):
                self.server.hincrby(self.buckets, field, -ms)


@pytest.fixture
def desk(stage: Stage, runner: Runner) -> Callable[..., Desk]:
    """Makes a provider with limits; every key of it expires by itself."""
    return lambda **limits: Desk(stage, runner, ProviderLimits(**limits))


def test_no_more_are_held_than_may_be_at_once_and_who_asked_first_is_first(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=2)
    one, two, three, four = (at.place() for _ in range(4))
    assert [at.ask(place) for place in (one, two)] == [0, 0]
    assert at.ask(three) == ASK_AGAIN_MS
    at.turn_back(5)
    assert at.ask(four) == ASK_AGAIN_MS

    at.leave(one)
    assert at.ask(four) > 0, "another one asked before"
    assert at.ask(three) == 0
    assert at.ask(four) > 0
    at.leave(two)
    assert at.ask(four) == 0


def test_a_repeat_is_given_the_same_place_and_counted_once(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1, requests_per_minute=10, tokens_per_minute=1_000)
    one, two = at.place(), at.place()
    assert at.ask(one, tokens=40) == at.ask(one, tokens=40) == 0
    level = at.server.hmget(at.buckets, "rl", "tl")
    assert [float(left) for left in level] == [0.0, 60.0]

    for _ in range(2):
        at.leave(one, unused_tokens=10)
    assert float(at.server.hget(at.buckets, "tl")) == pytest.approx(70, abs=5)
    at.turn_back(60_000)
    assert at.ask(two) == 0
    at.leave(one)
    assert at.server.zrange(at.held, 0, -1) == [two], "an old repeat takes nobody else's"


def test_one_that_is_gone_loses_its_place_by_time_and_one_at_work_keeps_it(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=2)
    gone, works, waits = at.place(), at.place(), at.place()
    assert at.ask(gone) == at.ask(works) == 0
    at.turn_back(HELD_MS - 1_000)
    at.renew(works)
    assert at.ask(waits) > 0
    at.turn_back(2_000)
    assert at.ask(waits) == 0
    assert set(at.server.zrange(at.held, 0, -1)) == {works, waits}


def test_one_in_the_queue_that_asks_no_more_stands_in_nobodys_way(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1)
    holder, gone, next_one = at.place(), at.place(), at.place()
    assert at.ask(holder) == 0
    assert at.ask(gone) > 0
    at.turn_back(2 * ASK_AGAIN_MS)
    assert at.ask(next_one) > 0
    at.leave(holder)
    assert at.ask(next_one) > 0
    at.turn_back(ASK_AGAIN_MS + 1_000)
    assert at.ask(next_one) == 0


def test_a_dead_processs_places_and_turns_are_free_at_once(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1)
    dead, dead_waits, lives = at.place("dead"), at.place("dead"), at.place("deadly")
    assert at.ask(dead) == 0
    assert at.ask(dead_waits) > 0
    at.turn_back(5)
    assert at.ask(lives) > 0
    assert at.bury("dead") == 1
    assert at.ask(lives) == 0
    assert at.bury("dead") == 0
    assert at.server.zrange(at.held, 0, -1) == [lives]


def test_the_first_in_the_queue_is_told(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1)
    holder, first, second = at.place("p1"), at.place("p2"), at.place("p3")
    at.ask(holder)
    for place in (first, second):
        at.ask(place)
        at.turn_back(5)
    with at.server.pubsub() as channel:
        channel.subscribe(keys.process_channel("p2"), keys.process_channel("p3"))
        for _ in range(2):
            assert channel.get_message(timeout=5)["type"] == "subscribe"
        at.leave(holder)
        assert channel.get_message(timeout=5)["data"] == f"{first} place"
        # It goes away instead: the next is told, though no place was given back.
        at.leave(first)
        assert channel.get_message(timeout=5)["data"] == f"{second} place"


def test_requests_flow_evenly_and_no_minute_sees_more_than_the_limit(desk: Callable[..., Desk]) -> None:
    at = desk(requests_per_minute=30)
    sent: list[float] = []
    at_ms, place = 0, at.place()
    while at_ms < 130_000:
        wait_ms = at.ask(place)
        if wait_ms:
            at.turn_back(wait_ms)
            at_ms += wait_ms
        else:
            sent.append(at_ms)
            at.leave(place)
            place = at.place()
    # The clock of the test goes on by itself as well, a little.
    most = max(sum(begin <= other < begin + 59_000 for other in sent) for begin in sent)
    assert most <= 30
    assert sent[:3] == [0, 0, 0], "a tenth may go at once"
    assert 55 <= len(sent) <= 66


def test_tokens_are_charged_before_and_corrected_after(desk: Callable[..., Desk]) -> None:
    at = desk(tokens_per_minute=6_000)
    one, two = at.place(), at.place()
    assert at.ask(one, tokens=3_000) == 0, "more than the bucket ever holds goes when it is full"
    wait_ms = at.ask(two, tokens=600)
    assert wait_ms == ASK_AGAIN_MS, "3,000 are missing, at about 90 a second"
    at.leave(one, unused_tokens=2_900)
    assert 0 < at.ask(two, tokens=600) <= 1_200

    at.turn_back(2_000)
    assert at.ask(two, tokens=600) == 0
    at.leave(two, unused_tokens=-1_200)
    assert float(at.server.hget(at.buckets, "tl")) < -1_000, "what it took beyond is owed"


def test_what_a_provider_wants_of_one_holds_everybody_back(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=5)
    one, two, three = at.place("p1"), at.place("p2"), at.place("p3")
    assert at.ask(one) == at.ask(two) == 0
    at.leave(one, closed_ms=4_000)
    assert 3_000 < at.ask(three) <= 4_000
    at.leave(two, closed_ms=500)
    assert at.ask(three) > 2_000, "a shorter wish does not open it"
    at.turn_back(4_001)
    assert at.ask(three) == 0


def test_a_clock_that_was_put_back_closes_nothing_for_long(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1, requests_per_minute=600)
    one, gone, two = at.place(), at.place(), at.place()
    assert at.ask(one) == 0
    assert at.ask(gone) > 0
    at.leave(one, closed_ms=1_000)
    assert at.ask(one) > 0
    at.server.zadd(at.held, {"old:token:1": at.now_ms() + HELD_MS})
    at.turn_back(-3_600_000)
    assert at.ask(two) == 0


def test_every_key_expires_by_itself(desk: Callable[..., Desk]) -> None:
    at = desk(max_concurrency=1, requests_per_minute=5, tokens_per_minute=1_000)
    one, two = at.place(), at.place()
    at.ask(one, tokens=5_000)
    at.ask(two)
    lives = [at.server.pttl(key) for key in keys.provider_places(at.name)]
    assert all(life > 0 for life in lives)
    assert lives[0] > 290_000, "a debt outlives its request"


_HAMMER = """
import json, sys, time
from retinue.store.operations import provider_places as places
from retinue.store.store import Store
from retinue.store.connections.sync_link import SyncLink

url, provider, process, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
link = SyncLink(url)
store, limits = Store(link), places.ProviderLimits(max_concurrency=3, requests_per_minute=6_000)
for number in range(count):
    place = f"{process}:token:{number}"
    while wait_ms := store.run(places.acquire_place(provider, place, limits, tokens=0)):
        time.sleep(min(wait_ms, 2) / 1000)
    most = int(link.execute("ZCARD", f"retinue:provider:{{{provider}}}:held"))
    print(json.dumps([time.time(), most]), flush=True)
    store.run(places.release_place(provider, place, limits))
"""


def test_processes_that_hammer_never_pass_the_limits(store_server: PrivateServer) -> None:
    provider, each = f"p-{secrets.token_hex(4)}", 150
    hammers = [
        subprocess.Popen(
            [sys.executable, "-c", _HAMMER, store_server.url, provider, f"p{number}", str(each)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    began = time.monotonic()
    lines = [line for hammer in hammers for line in hammer.communicate(timeout=60)[0].splitlines()]
    took_s = time.monotonic() - began
    assert [hammer.returncode for hammer in hammers] == [0] * 6
    seen = [json.loads(line) for line in lines]
    assert len(seen) == 6 * each
    assert max(most for _, most in seen) <= 3
    # 600 go at once, the others at 90 a second.
    assert took_s >= (6 * each - 600) / 91
