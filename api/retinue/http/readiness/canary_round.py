"""One round of canaries: all live workers, and all queues that they serve, are asked at the same time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from retinue.broker.canaries import (
    CanaryAnswer,
    ask_if_full,
    read_canaries,
    send_canary,
    take_canary_back,
)
from retinue.broker.catalogue import WorkerEntry
from retinue.broker.envelope import EnvelopeTemplate
from retinue.broker.links import Pipelines, run_pipeline
from retinue.store.store import AsyncStore

_LOOK_FIRST_S: Final = 0.01
_LOOK_MAX_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Canary:
    """A message to one queue.

    Args:
        queue: Where it is laid: a worker's own, or one that several serve.
        servers: The processes that serve it.
        nonce: By which its answer is found.
    """

    queue: str
    servers: tuple[str, ...]
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True, slots=True)
class RoundAnswers:
    """What came of a round; None = nobody took it, and no server of the queue is full.

    Args:
        workers: By process.
        queues: By name.
    """

    workers: Mapping[str, CanaryAnswer | None]
    queues: Mapping[str, CanaryAnswer | None]


class CanaryRound:
    """Sends canaries, and waits until all are answered or time is over.

    Args:
        workers: Whom to ask; all of them know canaries.
        queues: Which queues to ask, each served by some of the workers, and by no one who knows no canaries.
        template: The message's shape.
        store, link: Where the answers stand, and where workers are asked whether they are full.
        broker: Where the queues are.
    """

    def __init__(
        self,
        workers: Sequence[WorkerEntry],
        queues: Sequence[str],
        *,
        template: EnvelopeTemplate,
        store: AsyncStore,
        link: Pipelines,
        broker: Pipelines,
    ) -> None:
        self._template = template
        self._store, self._link, self._broker = store, link, broker
        self._of_workers = {each.process: Canary(each.private_queue, (each.process,)) for each in workers}
        self._of_queues = {
            queue: Canary(queue, tuple(each.process for each in workers if queue in each.queues))
            for queue in queues
        }

    async def run(self, limit_s: float) -> RoundAnswers:
        """Asks, and once again at half the time those that have not answered: a message may be lost.

        Args:
            limit_s: How long to wait for answers, in seconds.

        Raises:
            StoreError: Store or broker took no question, or gave no answer.
        """
        canaries = [*self._of_workers.values(), *self._of_queues.values()]
        answers: dict[str, CanaryAnswer] = {}
        for _ in range(2):
            missing = [canary for canary in canaries if canary.nonce not in answers]
            if not missing:
                break
            try:
                await self._send(missing)
                answers |= await self._answers(missing, limit_s / 2)
            finally:
                # What a full worker has answered for lies there still.
                await self._take_back([each for each in missing if _may_lie(answers.get(each.nonce))])
        return RoundAnswers(
            {process: answers.get(canary.nonce) for process, canary in self._of_workers.items()},
            {queue: answers.get(canary.nonce) for queue, canary in self._of_queues.items()},
        )

    async def _send(self, canaries: Sequence[Canary]) -> None:
        await run_pipeline(self._broker, [send_canary(each.queue, self._envelope(each)) for each in canaries])
        asked: dict[str, list[str]] = {}
        for canary in canaries:
            for process in canary.servers:
                asked.setdefault(process, []).append(canary.nonce)
        commands: list[tuple[Any, ...]] = []
        for process, nonces in asked.items():
            commands += ask_if_full(process, nonces)
        await run_pipeline(self._link, commands)

    async def _answers(self, canaries: Sequence[Canary], limit_s: float) -> dict[str, CanaryAnswer]:
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + limit_s, _LOOK_FIRST_S
        while True:
            found = await self._store.run(read_canaries([canary.nonce for canary in canaries]))
            left_s = until - loop.time()
            if len(found) == len(canaries) or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LOOK_MAX_S)

    async def _take_back(self, canaries: Sequence[Canary]) -> None:
        commands = [take_canary_back(each.queue, self._envelope(each)) for each in canaries]
        if commands:
            await run_pipeline(self._broker, commands)

    def _envelope(self, canary: Canary) -> bytes:
        return self._template.canary(canary.nonce, canary.queue)


def _may_lie(answer: CanaryAnswer | None) -> bool:
    """Whether a canary may still be in its queue, where it would hide that a run's message is lost."""
    return answer is None or answer.is_full
