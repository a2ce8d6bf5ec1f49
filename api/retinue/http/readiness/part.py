"""Whether the service can do its work: store, broker, a live worker, and that what is queued is taken.

A socket that connects proves little, and a lease only that a process lives. So canaries are sent, as seldom
as that tells enough, and however many probes come.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from retinue.broker.addresses import for_links
from retinue.contract import RetinueError, StoreMemoryError, StoreReplyError
from retinue.http.readiness.canary_round import CanaryRound
from retinue.http.readiness.verdict import Check, Verdict, consuming_check, queues_to_ask, workers_check
from retinue.store.connections.link import AsyncLink
from retinue.store.store import AsyncStore

if TYPE_CHECKING:
    from retinue.http.service import Service

_log = logging.getLogger("retinue.http")
EVERY_S: Final = 5.0
"""How long a verdict is given again, in seconds."""

_ANSWERS_WITHIN_S: Final = 3.0
"""How long store and broker may take for one answer, in seconds."""


class Readiness:
    """One process's verdict, shared by all who ask.

    Args:
        service: The process's.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._last: tuple[float, Verdict] | None = None
        self._asking: asyncio.Task[Verdict] | None = None
        self._broker_link: AsyncLink | None = None

    async def verdict(self) -> Verdict:
        """The last verdict, or a new one if that is too old. It never raises."""
        now = asyncio.get_running_loop().time()
        if self._last is not None and now - self._last[0] < EVERY_S:
            return self._last[1]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        # Who asked first may go away; the others wait for the same.
        return await asyncio.shield(self._asking)

    async def close(self) -> None:
        """Asks nothing any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        if self._broker_link is not None:
            await self._broker_link.close()

    async def _ask(self) -> Verdict:
        found = Verdict(tuple([check async for check in self._checks()]))
        self._last = asyncio.get_running_loop().time(), found
        return found

    async def _checks(self) -> AsyncGenerator[Check]:
        """One after the other, as long as they are good."""
        connections = self._service.connections()
        store = await _reachable("store", connections.link)
        yield store
        if not store.ok:
            return
        broker = self._broker()
        if broker is None:
            yield await self._other_broker()
        else:
            check = await _reachable("broker", broker)
            yield check
            if not check.ok:
                return
        try:
            async for check in self._of_workers(broker):
                yield check
        except StoreMemoryError:
            yield Check("consuming", False, "the broker is out of memory, and takes no message")
        except StoreReplyError as error:
            _log.error("readiness.refused error=%s", error)
            yield Check("consuming", False, "store or broker refused to be asked; the log tells why")
        except (RetinueError, TimeoutError):
            yield Check("consuming", False, "store or broker did not answer while workers were asked")

    async def _of_workers(self, broker: AsyncLink | None) -> AsyncGenerator[Check]:
        connections = self._service.connections()
        snapshot = await connections.catalogue.snapshot(fresh=True)
        workers = workers_check(snapshot)
        yield workers
        if not workers.ok:
            return
        if broker is None:
            yield Check("consuming", True, "not asked: the broker is neither a Redis nor a Valkey")
            return
        template = (await connections.waker()).template
        asked = CanaryRound(
            [worker for worker in snapshot.takers if worker.answers_canaries],
            queues_to_ask(snapshot.takers),
            template=template,
            store=AsyncStore(connections.link),
            link=connections.link,
            broker=broker,
        )
        limit_s = self._service.settings.http.readiness_seconds
        async with asyncio.timeout(limit_s + 2 * _ANSWERS_WITHIN_S):
            answers = await asked.run(limit_s)
        now = await connections.catalogue.snapshot(fresh=True)
        yield consuming_check(snapshot, answers, now, at=time.time())

    def _broker(self) -> AsyncLink | None:
        """Where canaries are sent; None = to no Redis."""
        settings = self._service.settings
        if settings.same_server:
            return self._service.connections().link
        address = settings.broker_address
        if address is not None and self._broker_link is None:
            self._broker_link = AsyncLink(
                for_links(address), client_name="retinue-web-broker", timeout_s=_ANSWERS_WITHIN_S, retries=0
            )
        return self._broker_link

    async def _other_broker(self) -> Check:
        """Whether a broker answers that only kombu can speak to."""
        app = (await self._service.connections().waker()).app

        def connect() -> None:
            with app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, timeout=_ANSWERS_WITHIN_S)

        try:
            await asyncio.to_thread(connect)
        except Exception as error:  # whatever the transport raises
            return Check("broker", False, f"does not answer: {type(error).__name__}")
        return Check("broker", True, "answers")


@asynccontextmanager
async def readiness_part(service: Service) -> AsyncGenerator[None]:
    """Keeps the process's verdict."""
    service.readiness = Readiness(service)
    try:
        yield
    finally:
        await service.readiness.close()


async def _reachable(name: str, link: AsyncLink) -> Check:
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            await link.execute("PING")
    except (RetinueError, TimeoutError):
        # Its text would name the server.
        return Check(name, False, "does not answer")
    return Check(name, True, "answers")
