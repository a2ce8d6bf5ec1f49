"""A facade for one launch that may be asked for again, from whatever process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.client.aio import AsyncSubagentLifecycle
from retinue.client.dispatch.async_dispatch import AsyncDispatch
from retinue.client.launching.seed import LaunchSeed
from retinue.client.scope import Scope

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


class SeededLifecycle(AsyncSubagentLifecycle):
    """`AsyncSubagentLifecycle` whose one launch has ids that are derived from a seed.

    Args:
        session_id, tenant, settings: As for `AsyncSubagentLifecycle`.
        seed: Of the launch.
    """

    def __init__(
        self, session_id: str, seed: LaunchSeed, *, tenant: str = "_", settings: Settings | None = None
    ) -> None:
        super().__init__(session_id, tenant=tenant, settings=settings)
        self._calls = AsyncDispatch(Scope.checked(tenant, session_id), settings, seed)
