"""Looked at before the API listens: whether its user can come in, and whether strangers are kept out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from retinue.broker.embedded.keeper import write_private
from retinue.broker.embedded.running_store import default_directory
from retinue.broker.settings import Settings
from retinue.client.dispatch.connections import connections_for
from retinue.contract import SettingsError
from retinue.store.operations.api_keys import ApiKey, Scope, draft_key, list_keys
from retinue.store.store import Store

_DIRECTORY: Final = "keys"
_NAME: Final = "first start"


@dataclass(frozen=True, slots=True)
class Entrance:
    """How the user of this machine comes in.

    Args:
        key_file: Holds a key that is good here. None = there is none; keys were made by hand.
        first_key: The key, when it was made just now: to be shown this once.
    """

    key_file: Path | None = None
    first_key: str | None = field(default=None, repr=False)


def prepare_entrance(settings: Settings, *, is_local: bool) -> Entrance:
    """Makes the first key of a store, or refuses to open the door to everybody.

    Args:
        settings: With the store.
        is_local: The address can be reached from this machine alone.

    Raises:
        SettingsError: The address is for others too, and there are neither API keys nor tokens; or the
            first key cannot be written down.
        SubagentLifecycleError: STORE_UNAVAILABLE.
    """
    with closing(connections_for(settings)) as connections:
        keys = [key for key in connections.store.run(list_keys()) if key.is_good(time.time())]
        if keys:
            return Entrance(_file_of(keys))
        if is_local:
            return _first(connections.store)
        if settings.http.jwt is not None:
            return Entrance()
        raise SettingsError(
            f"listening on {settings.http.host} lets others in, and there is no API key yet",
            setting="http.host",
            mend="make one with `retinue keys create`, or listen on 127.0.0.1",
        )


def key_file(key_id: str) -> Path:
    """Where a first key stands: in the user's state directory, beside the embedded server's data.

    Each has a file of its own, for each store has its own first key.
    """
    return default_directory().parent / _DIRECTORY / key_id


def _first(store: Store) -> Entrance:
    issued, write = draft_key(tenant="_", scopes=tuple(Scope), name=_NAME, expires_days=None)
    path = key_file(issued.key.key_id)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Before the store has it: a key that nobody can find out again would stand in the way of the next.
        write_private(path, f"{issued.text}\n")
    except OSError as error:
        raise SettingsError(
            f"the first API key cannot be written down: {error.strerror}",
            setting=str(path),
            mend="set XDG_STATE_HOME to a directory of yours, or make a key with `retinue keys create`",
        ) from None
    store.run(write)
    return Entrance(path, issued.text)


def _file_of(keys: Iterable[ApiKey]) -> Path | None:
    paths = (key_file(key.key_id) for key in keys)
    return next((path for path in paths if path.is_file()), None)
