"""Client facades for tests, each with settings of its own, closed with the test."""

from __future__ import annotations

from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle


class LifecycleFactory:
    """Makes client facades for one test, and closes them with it."""

    def __init__(self) -> None:
        self._made: list[SubagentLifecycle] = []

    def __call__(
        self, store_url: str, *, session_id: str = "test", tenant: str = "_", **settings: object
    ) -> SubagentLifecycle:
        """A facade with settings of its own.

        Args:
            store_url: The store and broker.
            session_id: The session that owns what it launches.
            tenant: The session's tenant.
            settings: Further settings, by name.
        """
        facade = SubagentLifecycle(
            session_id=session_id, tenant=tenant, settings=Settings.read(store_url=store_url, **settings)
        )
        self._made.append(facade)
        return facade

    def close(self) -> None:
        """Closes every facade that was made."""
        for facade in self._made:
            facade.close()
