"""What the reaper's tests play on: runs of several tenants, worker processes, and the broker's lists."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis
from tests.integration.store.stage import Stage, SyncRunner

from retinue.broker.app import create_app
from retinue.broker.catalogue import WorkerEntry, advertise
from retinue.broker.envelope import EnvelopeTemplate
from retinue.broker.reaper.casualties import Casualties
from retinue.broker.reaper.reaper import Reaper
from retinue.broker.reaper.shortfall import Shortfall
from retinue.broker.reaper.stranded import Stranded
from retinue.broker.routes import private_queue, queue_keys
from retinue.broker.settings import Settings
from retinue.broker.wakeups import Waker
from retinue.contract import StoreUnavailableError, partition_of_run
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.connections.link import AsyncLink
from retinue.store.record import WakeUp, WakeUpKind
from retinue.store.store import AsyncStore

AGENTS = ("researcher", "support")


class TroubledLink(AsyncLink):
    """A link that fails, or dawdles, at the next calls of a script."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: dict[str, int] = {}
        self.fail_at: dict[str, int] = {}
        """Script -> its call, counted from 1, that fails before it is sent."""

    async def evalsha(self, script: Any, keys: Any = (), argv: Any = ()) -> Any:
        self.calls[script.name] = self.calls.get(script.name, 0) + 1
        if self.fail_at.get(script.name) == self.calls[script.name]:
            raise StoreUnavailableError("cut")
        return await super().evalsha(script, keys, argv)


class Watch:
    """One store that is the broker as well.

    Args:
        url: Where it is; it is empty.
        server: A client of it.
        settings: Fields of the processes' settings.
    """

    def __init__(self, url: str, server: redis.Redis, **settings: Any) -> None:
        self.url = url
        self.server: Any = server
        self.settings = Settings.read(store_url=url, **settings)
        self.link = TroubledLink(url)
        self.store = AsyncStore(self.link)
        app = create_app(self.settings)
        self.waker = Waker(app, template=EnvelopeTemplate.capture(app), link=self.link)
        self._runner = SyncRunner(url)
        self.stage = self.new_stage()
        self._moments = itertools.count(round(time.time() * 1000) - 100_000)

    def new_stage(self) -> Stage:
        """Another tenant, mostly in another partition."""
        return Stage(self._runner, self.server)

    async def close(self) -> None:
        await self.link.close()
        self._runner.close()

    # The parts under test, as a process has them.

    def reaper(self, process: str, waker: Any = None) -> Reaper:
        return Reaper(self.store, self.link, self.link, waker or self.waker, self.settings, process)

    def casualties(self) -> Casualties:
        return Casualties(self.store, self.link, self.link, self.waker, self.settings)

    def shortfall(self) -> Shortfall:
        return Shortfall(self.store, self.link, self.link, self.waker, self.settings)

    def stranded(self, **options: Any) -> Stranded:
        return Stranded(
            self.store, self.link, self.link, self.waker, self.settings, **{"every_s": 0.0} | options
        )

    # Worker processes.

    async def worker(
        self,
        process: str,
        *,
        agents: Sequence[str] = AGENTS,
        queues: Sequence[str] = ("retinue",),
        **fields: Any,
    ) -> str:
        """A process that lives and has advertised itself."""
        entry = WorkerEntry(
            process, "host", 1, 1.0, tuple(queues), private_queue(process), tuple(agents), slots=4, **fields
        )
        advert = {"agents": [{"name": name, "queue": queues[0]} for name in agents], "toolsets": {}}
        await advertise(self.link, entry, advert, [], time.time())
        self.renew(process)
        return process

    def renew(self, process: str) -> None:
        """The process's lease is there (again)."""
        self.server.set(keys.lease(process), "x", px=60_000)

    def kill(self, process: str) -> None:
        """The process's lease runs out."""
        self.server.delete(keys.lease(process))

    # Queued runs, with their message on the broker or without.

    async def queued(self, count: int = 1, *, message: bool, **changes: Any) -> list[RunKey]:
        """Roots, each queued later than the one before; `changes` are fields of the request."""
        runs = [self.stage.root(**changes) for _ in range(count)]
        for run in runs:  # several may have been queued in one millisecond
            self.queued_at(run, next(self._moments))
        if message:
            await self.waker.send(*(self._first_wakeup(run) for run in runs))
        return runs

    def queued_at(self, run: RunKey, moment_ms: int) -> None:
        """Lets a queued run be queued since that moment."""
        queue = keys.queued(partition_of_run(run.run_id), self.stage.record(run).queue)
        self.server.zadd(queue, {run.member: moment_ms}, xx=True)

    def _first_wakeup(self, run: RunKey) -> WakeUp:
        record = self.stage.record(run)
        return WakeUp(
            run.tenant, run.run_id, 1, WakeUpKind.DELEGATE, record.agent, record.queue, 6, run.run_id, None
        )

    # What stands in store and broker.

    def messages(self, queue: str = "retinue") -> list[str]:
        """The runs that messages of a queue name, in the order they are popped."""
        found = [raw for key in queue_keys(queue) for raw in reversed(self.server.lrange(key, 0, -1))]
        return [json.loads(raw)["headers"]["argsrepr"] for raw in found]

    def drain(self, queue: str = "retinue") -> list[str]:
        """Takes a queue's messages away."""
        found = self.messages(queue)
        self.server.delete(*queue_keys(queue))
        return found

    def over_its_back_off(self, *runs: RunKey) -> None:
        """Lets so much time pass that the runs may be woken again."""
        for run in runs:
            self.server.hset(run.record, "ra", 0)


async def until(done: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Waits for something that another task brings about.

    Raises:
        TimeoutError: It did not happen in time.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            if done():
                return
            await asyncio.sleep(0.01)
