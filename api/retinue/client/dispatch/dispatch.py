"""What the dispatches of both colours have in common: whose calls they are, and under which settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Self

from retinue.client.parent import current_parent
from retinue.client.scope import Scope

if TYPE_CHECKING:
    from retinue.broker.settings import Settings


class Dispatch:
    """The calls of one facade.

    Args:
        scope: As it was made; one without a session takes the running parent's at each call.
        settings: None = the process's own, read at the first call.
    """

    def __init__(self, scope: Scope, settings: Settings | None) -> None:
        self._own_scope = scope
        self._settings = settings

    @property
    def scope(self) -> Scope:
        """Who asks now."""
        return self._own_scope.now()

    @property
    def settings(self) -> Settings:
        """The settings in force.

        Raises:
            SettingsError: They cannot be read.
        """
        if self._settings is None:
            from retinue.broker.settings import load_settings

            self._settings = load_settings()
        return self._settings

    def lent(self) -> AbstractContextManager[None]:
        """Inside a tool, the worker's slot serves other runs meanwhile."""
        parent = self.scope.parent or current_parent.get()
        return parent.lend() if parent else nullcontext()

    def slot(self) -> Slot:
        """The worker's slot, for one wait; a context manager."""
        return Slot(self.lent)


class Slot:
    """A worker's slot: lent once a wait blocks, and until the wait is over.

    Args:
        lent: Lends it.
    """

    def __init__(self, lent: Callable[[], AbstractContextManager[None]]) -> None:
        self._lent = lent
        self._loan: AbstractContextManager[None] | None = None

    def lend(self) -> None:
        """Lends it, if it is not lent already."""
        if self._loan is None:
            loan = self._lent()
            loan.__enter__()
            self._loan = loan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._loan is not None:
            self._loan.__exit__(None, None, None)
