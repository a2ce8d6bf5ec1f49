"""The client's facade as the commands use it, and how it finds a run by its bare id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.cli.handle_argument import read_handle

if TYPE_CHECKING:
    from retinue.client import SubagentLifecycle
    from retinue.contract import SubagentHandle


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
    return value if not isinstance(value, str) else handle_of_run(tenant, value) or value


def handle_of_run(tenant: str, run_id: str) -> SubagentHandle | None:
    """The handle of a run that anybody may have launched; None if there is no such run."""
    from retinue.broker.settings import load_settings
    from retinue.client.answers import handle_of
    from retinue.client.connections import connections_for
    from retinue.contract import is_run_id, validate_tenant
    from retinue.store.call import RunKey
    from retinue.store.reading import read_result

    if not is_run_id(run_id):
        return None
    connections = connections_for(load_settings())
    found = connections.store.run(read_result(RunKey(validate_tenant(tenant), run_id)))
    return None if found is None else handle_of(connections.keyring.ring(), tenant, run_id, found)
