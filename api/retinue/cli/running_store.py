"""Finds the store of `retinue up`, so that other shells need not be told where it is."""

from __future__ import annotations

import json
import os


def use_running_store() -> None:
    """Lets this process use the embedded server of a `retinue up` that runs, if no store is set.

    It does not become an owner: the server ends with `retinue up`, not with this process.
    """
    from retinue.broker.settings import load_settings, reset_settings

    if load_settings().store_url is not None:
        return
    url = running_store_url()
    if url is not None:
        os.environ["RETINUE_STORE_URL"] = url
        reset_settings()


def running_store_url() -> str | None:
    """URL of the embedded server that runs for this user; None when there is none."""
    from retinue.broker import embedded_keeper
    from retinue.broker.embedded import default_directory

    directory = default_directory()
    try:
        port = int(json.loads((directory / embedded_keeper.STATE_FILE).read_text())["port"])
        password = (directory / embedded_keeper.PASSWORD_FILE).read_text().strip()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not embedded_keeper.answers(port, password):
        return None
    return f"redis://:{password}@127.0.0.1:{port}/0"
