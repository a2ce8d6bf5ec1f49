"""From ended runs to deliveries: letters are taken from the outbox, and told once their deliveries stand."""

from __future__ import annotations

import logging
import random
import secrets
from typing import Final

from retinue.broker.links import run_pipeline
from retinue.broker.reaper.each_run import each_run
from retinue.client.dispatch.async_connections import AsyncConnections
from retinue.client.launching.ticket import webhook_url_in
from retinue.contract import PARTITIONS
from retinue.http.webhooks.targets import place_of
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations import deliveries, outbox
from retinue.store.operations.outbox import Letter, NotTaken, Told
from retinue.store.operations.webhooks import new_secret

HELD_MS: Final = 15_000
"""How long a letter's deliveries may take to be written before another process may write them."""

_OF_A_PARTITION: Final = 50
_A_LOOK: Final = 200

_log = logging.getLogger("retinue.http.webhooks")


class Letters:
    """Queues the deliveries of ended runs.

    Args:
        connections: Of the running event loop.
    """

    def __init__(self, connections: AsyncConnections) -> None:
        self._store = connections.store
        self._link = connections.link

    async def look(self) -> int:
        """Queues what waits, as much as one look may; how many letters were told.

        Raises:
            StoreError: The store could not be asked.
        """
        members = await self._waiting()
        # One partition's must not keep back the others', and other processes look at the same.
        random.shuffle(members)
        return len(await each_run(members[:_A_LOOK], self._queue))

    async def _queue(self, run: RunKey) -> RunKey | None:
        letter = await self._store.run(
            outbox.take(run, Told.WEBHOOKS, token=secrets.token_hex(8), held_ms=HELD_MS)
        )
        if isinstance(letter, NotTaken):
            return None
        try:
            call = _deliveries_of(letter)
        except (ValueError, KeyError, TypeError) as fault:
            # A newer version wrote it, which will tell; else it expires.
            _log.error("webhook.unreadable run=%s error=%s", run.run_id, type(fault).__name__)
            return None
        await self._store.run(call)
        await self._store.run(outbox.told(run, Told.WEBHOOKS))
        return run

    async def _waiting(self) -> list[str]:
        seconds, micros = await self._link.execute("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        calls = [
            outbox.read_outbox(number, Told.WEBHOOKS, now_ms=now_ms, skip=0, most=_OF_A_PARTITION)
            for number in range(PARTITIONS)
        ]
        replies = await run_pipeline(self._link, [call.command for call in calls])
        return [member for call, reply in zip(calls, replies, strict=True) for member in call.parse(reply)]


def _deliveries_of(letter: Letter) -> ScriptCall[int]:
    url = webhook_url_in(letter.request_json)
    return deliveries.post(
        letter.run.tenant,
        letter.run.run_id,
        letter.record,
        own_url=url,
        own_place=place_of(url) if url else "",
        first_secret=new_secret(),
    )
