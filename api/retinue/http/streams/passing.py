"""News of trees that are not kept: pieces of text and progress, from the store's channels to the streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from retinue.contract import EventType, RetinueError
from retinue.http.streams.frames import passing_frame
from retinue.store import keys
from retinue.store.connections.async_channels import AsyncChannels
from retinue.store.operations import passing

if TYPE_CHECKING:
    from retinue.broker.settings import Settings
    from retinue.store.store import AsyncStore

_log = logging.getLogger("retinue.http")
_RENEW_S: Final = passing.LISTENING_MS / 3_000
CLIENT_NAME: Final = "retinue-news"
MODEL_DELTA: Final = "model.delta"


@dataclass(frozen=True, slots=True)
class News:
    """Something that happens to a run and is not kept.

    Args:
        run_id: Whose.
        frame: As a stream sends it.
    """

    run_id: str
    frame: bytes

    @classmethod
    def of(cls, message: bytes) -> News | None:
        """What was published; None = nothing that this version knows."""
        try:
            told: dict[str, Any] = json.loads(message)
            kind, run_id = str(told["e"]), str(told["r"])
            if kind == MODEL_DELTA:
                offset, iteration = int(told["offset"]), int(told["iteration"])
                members = {
                    "run_id": run_id, "iteration": iteration, "offset": offset, "text": str(told["text"]),
                }  # fmt: skip
            elif kind == EventType.TOOL_PROGRESS:
                at = datetime.fromtimestamp(int(told["t"]) / 1000, UTC).isoformat(timespec="milliseconds")
                data = {"index": int(told["index"]), "message": str(told["message"])}
                members = {"type": kind, "run_id": run_id, "at": at, "data": data}
            else:
                return None
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None
        return cls(run_id, passing_frame(kind, members))


Offer = Callable[[News], None]


class PassingNews:
    """Hears the channels of the trees that some stream listens to, and keeps their markers up.

    Args:
        settings: Where the store is.
        store: Gives the store of the running loop.
    """

    def __init__(self, settings: Settings, store: Callable[[], AsyncStore]) -> None:
        self._settings = settings
        self._store = store
        self._trees: dict[str, tuple[str, str]] = {}
        self._offers: dict[str, set[Offer]] = {}
        self._channels: AsyncChannels | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self, tree: tuple[str, str], offer: Offer) -> Generator[None]:
        """Offers a stream what is published of a tree.

        Args:
            tree: Its tenant and root.
            offer: Must be quick.
        """
        name = keys.news_channel(*tree)
        offers = self._offers.setdefault(name, set())
        if not offers:
            self._trees[name] = tree
            self._joined_channels().join(name)
        offers.add(offer)
        try:
            yield
        finally:
            offers.discard(offer)
            if not offers and self._offers.get(name) is offers:
                del self._offers[name], self._trees[name]
                self._joined_channels().leave(name)

    async def close(self) -> None:
        """Ends the connection."""
        tasks = [*self._tasks, *([self._renewing] if self._renewing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._channels is not None:
            await self._channels.close()

    def _joined_channels(self) -> AsyncChannels:
        if self._channels is None:
            self._channels = AsyncChannels(
                self._settings.required_store_url,
                on_message=self._heard,
                on_joined=self._joined,
                client_name=CLIENT_NAME,
                connect_timeout_s=self._settings.store_timeout_seconds,
            )
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), name="retinue-news")
        return self._channels

    def _heard(self, name: str, message: bytes) -> None:
        offers = self._offers.get(name)
        news = News.of(message) if offers else None
        if offers and news:
            for offer in tuple(offers):
                offer(news)

    def _joined(self, name: str) -> None:
        """Only now is nothing missed that is published because of the marker."""
        tree = self._trees.get(name)
        if tree is not None:
            task = asyncio.get_running_loop().create_task(self._listen(*tree))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _listen(self, tenant: str, root_id: str) -> None:
        try:
            await self._store().run(passing.listen(tenant, root_id))
        except RetinueError as error:
            # The marker is set by the next renewal; the runs' next requests then are heard.
            _log.warning("streams.not_listening error=%s", type(error).__name__)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            for tree in list(self._trees.values()):
                with suppress(RetinueError):
                    await self._store().run(passing.keep_listening(*tree))
