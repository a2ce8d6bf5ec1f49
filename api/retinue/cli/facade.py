"""The client's facade as the commands use it, and how it finds a run by its bare id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.cli.handle_argument import read_handle

if TYPE_CHECKING:
    from retinue.client import SubagentLifecycle


def operator(tenant: str) -> SubagentLifecycle:
    """A facade for every session of a tenant: whoever can reach the store may act on all of it."""
    from retinue.client import SubagentLifecycle

    return SubagentLifecycle.operator(tenant)


def find_handle(tenant: str, argument: str) -> object:
    """What the facade takes for a handle argument.

    Returns:
        The fields of the handle that was given, or the handle of a run's bare id. An id that leads to no
        run is returned as it is, which the facade answers with UNKNOWN.

    Raises:
        typer.BadParameter: the argument cannot be read.
        SubagentLifecycleError: STORE_UNAVAILABLE.
    """
    value = read_handle(argument)
    return value if not isinstance(value, str) else operator(tenant).handle(value) or value
