"""Finds the store of `retinue up`, so that no other process of the user need be told where it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

STATE_FILE = "server.json"
"""As the keeper names it, which is imported only where there is such a file."""

_known: dict[tuple[Path, int], str] = {}
"""URLs by state file and its time: a server that has answered once is not asked again."""


def running_store_url() -> str | None:
    """URL of the embedded server that runs for this user; None when there is none.

    Where there is none, it costs a look at one file. Whoever uses the server so is no owner of it: it ends
    with `retinue up`.
    """
    directory = default_directory()
    file = directory / STATE_FILE
    try:
        found = file.stat()
        # Somebody else's file might name a server that reads along.
        if found.st_uid != os.geteuid():
            return None
        key = (file, found.st_mtime_ns)
        if key in _known:
            return _known[key]
        from retinue.broker.embedded import keeper

        port = int(json.loads(file.read_text())["port"])
        password = (directory / keeper.PASSWORD_FILE).read_text().strip()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not keeper.answers(port, password):
        return None
    url = _known[key] = f"redis://:{password}@127.0.0.1:{port}/0"
    return url


def default_directory() -> Path:
    """The data directory in the user's state directory, as the XDG base directory specification has it."""
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification tells to ignore a relative path.
    base = Path(state) if os.path.isabs(state) else Path("~/.local/state").expanduser()
    return base / "retinue" / "valkey"
