"""Makes deliveries: takes lanes whose turn it is, posts what is due, and writes down what came of it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import Final

from retinue.broker.settings.http import HttpSettings
from retinue.client.dispatch.async_connections import AsyncConnections
from retinue.contract import RetinueError
from retinue.http.webhooks.message import message_body
from retinue.http.webhooks.schedule import outcome_of
from retinue.http.webhooks.sending import Sender
from retinue.http.webhooks.signing import signed_headers
from retinue.store.operations import deliveries
from retinue.store.operations.deliveries import Delivery, DeliveryState, Lane, Outcome, Turn

LANES: Final = 32
"""Lanes that a process works on at a time."""

OF_A_TENANT: Final = 24
"""Lanes of one tenant among these: the rest is for others, however many hosts its launches name."""

AT_ONCE: Final = 8
"""Deliveries of a lane that are in flight at a time."""

_SEEN: Final = 2_000
"""Lanes that are looked at to find some of other tenants."""

_SLACK_S: Final = 10.0
"""What a lane is held beyond the limit of an attempt: for writing down what came of it."""

_log = logging.getLogger("retinue.http.webhooks")


class Dispatcher:
    """Works on lanes.

    Args:
        connections: Of the running event loop.
        sender: Posts.
        settings: Time limits.
    """

    def __init__(self, connections: AsyncConnections, sender: Sender, settings: HttpSettings) -> None:
        self._store = connections.store
        self._sender = sender
        self._held_ms = round((settings.webhook_timeout_seconds + _SLACK_S) * 1000)
        self._pauses_s = settings.webhook_retry_seconds
        self._turns: dict[Lane, asyncio.Task[None]] = {}

    async def look(self) -> bool:
        """Begins to work on lanes whose turn it is, as far as there is room; whether there were any.

        Raises:
            StoreError: The store could not be asked.
        """
        if len(self._turns) >= LANES:
            await asyncio.wait(self._turns.values(), return_when=asyncio.FIRST_COMPLETED)
        begun = False
        for lane in await self._store.run(deliveries.read_ready(_SEEN)):
            if self._has_room_for(lane):
                task = asyncio.create_task(self._turn(lane))
                self._turns[lane] = task
                task.add_done_callback(lambda _, lane=lane: self._turns.pop(lane))
                begun = True
        return begun

    async def close(self, timeout_s: float) -> None:
        """Lets what is being posted come to its end; what does not, another process posts again."""
        turns = set(self._turns.values())
        if turns:
            _, late = await asyncio.wait(turns, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _has_room_for(self, lane: Lane) -> bool:
        if lane in self._turns or len(self._turns) >= LANES:
            return False
        return sum(other.tenant == lane.tenant for other in self._turns) < OF_A_TENANT

    async def _turn(self, lane: Lane) -> None:
        """Works on a lane for as long as deliveries are due there, and others do not wait for the place."""
        try:
            while await self._work(lane) == AT_ONCE and len(self._turns) < LANES:
                pass
        except RetinueError as fault:
            _log.warning("webhook.lane_left tenant=%s error=%s", lane.tenant, type(fault).__name__)
        except Exception as fault:
            _log.error(
                "webhook.lane_left tenant=%s error=%s", lane.tenant, type(fault).__name__, exc_info=fault
            )

    async def _work(self, lane: Lane) -> int:
        token = secrets.token_hex(8)
        turn = await self._store.run(deliveries.take(lane, token, held_ms=self._held_ms, most=AT_ONCE))
        if turn is None:
            return 0
        await asyncio.gather(*(self._deliver(turn, delivery) for delivery in turn.deliveries))
        await self._store.run(deliveries.release(turn))
        return len(turn.deliveries)

    async def _deliver(self, turn: Turn, delivery: Delivery) -> None:
        outcome = await self._attempt(turn, delivery)
        if await self._store.run(deliveries.record(turn, delivery, outcome)):
            _say(turn, delivery, outcome)

    async def _attempt(self, turn: Turn, delivery: Delivery) -> Outcome:
        url = delivery.own_url or turn.url
        if turn.disabled is not None or url is None:
            return Outcome(DeliveryState.FAILED, attempted=False, error="endpoint_disabled")
        now, body = time.time(), message_body(delivery)
        headers = signed_headers(delivery.delivery_id, int(now), body, turn.secrets.signing(now * 1000))
        attempt = await self._sender.send(url, headers, body)
        return outcome_of(attempt, made=delivery.attempts, pauses_s=self._pauses_s, now=time.time())


def _say(turn: Turn, delivery: Delivery, outcome: Outcome) -> None:
    # Never the URL, which may be a secret in itself.
    _log.log(
        logging.WARNING if outcome.state is DeliveryState.FAILED else logging.INFO,
        "webhook.%s tenant=%s webhook=%s delivery=%s run=%s attempt=%d status=%s error=%s duration_ms=%d",
        "retried" if outcome.state is DeliveryState.PENDING else outcome.state.value,
        turn.lane.tenant,
        delivery.webhook_id,
        delivery.delivery_id,
        delivery.run_id,
        delivery.attempts + outcome.attempted,
        outcome.response_status,
        outcome.error,
        outcome.duration_ms,
    )
    if outcome.disables is not None and delivery.own_url is None:
        _log.warning("webhook.disabled tenant=%s webhook=%s", turn.lane.tenant, delivery.webhook_id)
