"""The worker program: Celery's, with our pool and no other."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from celery.apps.worker import Worker
from kombu.utils.imports import symbol_by_name

from retinue.broker.app import POOL
from retinue.contract import SettingsError
from retinue.worker.extra import require_extra
from retinue.worker.pool.run_pool import RunPool

_COMMAND: Final = "celery -A retinue.worker worker -c 500"


class RunWorker(Worker):
    """Refuses what cannot work, and subscribes to the queues of the agents that it can run."""

    def on_before_init(self, quiet: bool = False, **kwargs: Any) -> None:
        """Called by Celery with the options of the command line.

        Raises:
            SystemExit: Another pool was asked for, or autoscaling; with the command that works. Or a
                package of the extra `worker` is missing; with the command that installs it.
        """
        try:
            require_extra("the worker")  # else its later import would end in a long traceback
        except SettingsError as fault:
            raise SystemExit(f"retinue: {fault}") from None
        reason = refusal(kwargs.get("pool") or kwargs.get("pool_cls"), kwargs.get("autoscale"), sys.argv)
        if reason is not None:
            raise SystemExit(f"retinue: {reason}")
        super().on_before_init(quiet=quiet, **kwargs)

    def prepare_args(self, **kwargs: Any) -> dict[str, Any]:
        """Called by Celery: without gossip and mingle, which tell workers what Retinue has in its store.

        Mingle costs a second at each start, and gossip trips over each outage of the broker.
        """
        return {**super().prepare_args(**kwargs), "without_gossip": True, "without_mingle": True}

    def setup_queues(self, include: Any, exclude: Any = None) -> None:
        """Called by Celery with the values of -Q and -X."""
        super().setup_queues(include or _loaded_queues(self.app), exclude)


def refusal(pool: Any, autoscale: Any, argv: Sequence[str]) -> str | None:
    """Why a command line cannot work, with the one that does; None if it can.

    Args:
        pool: What Celery made of -P: a class, an import path, or None.
        autoscale: What it made of --autoscale.
        argv: The command line, for the name that was given to -P.
    """
    if pool not in (None, RunPool, POOL):
        name = asked_pool(argv) or getattr(pool, "__module__", str(pool)).rpartition(".")[2]
        return (
            f"-P {name} cannot be used: runs need Retinue's own pool, which executes thousands of them in "
            f"one process. Leave -P out and set the number of runs with -c:\n    {_COMMAND}"
        )
    if autoscale:
        limit = max(autoscale) if isinstance(autoscale, (tuple, list)) else str(autoscale).partition(",")[0]
        return (
            "--autoscale cannot be used: a free slot of Retinue's pool costs nothing, so there is nothing to "
            f"scale. Give the upper limit with -c:\n    {_COMMAND.replace('500', str(limit))}"
        )
    return None


def asked_pool(argv: Sequence[str]) -> str | None:
    """The value of -P or --pool on a command line; None if it is not there."""
    for at, word in enumerate(argv):
        if word in ("-P", "--pool"):
            return argv[at + 1] if at + 1 < len(argv) else None
        for start in ("--pool=", "-P"):
            if word.startswith(start):
                return word.removeprefix(start)
    return None


def _loaded_queues(app: Any) -> list[str] | None:
    """What `retinue_queues` says: names, or a function of the app (or its import path) that gives them."""
    wanted: Any = app.conf["retinue_queues"]
    if isinstance(wanted, str):
        wanted = symbol_by_name(wanted)
    names = cast("Iterable[str] | None", wanted(app) if callable(wanted) else wanted)
    return list(dict.fromkeys(names)) if names else None
