"""Revoking a task, from Flower or `celery control`, cancels its run.

Every worker gets the command, and none needs to have the task: the id names the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery.worker import control, state
from celery.worker.control import Panel

from retinue.contract.ids import is_run_id, parse_task_id
from retinue.worker.pool.run_pool import RunPool


def install_revoke() -> None:
    """Put our `revoke` and `terminate` in the place of Celery's, in this process."""
    Panel.data["revoke"] = _revoke
    Panel.data["terminate"] = _terminate


def _revoke(
    consumer_state: Any, task_id: Any, terminate: bool = False, signal: Any = None, **kwargs: Any
) -> dict[str, str]:
    """Revoke tasks, which cancels the runs they belong to. Ids of other tasks go to Celery's own command."""
    ids = {str(one) for one in ([task_id] if isinstance(task_id, str) else task_id or ())}
    runs = {one: run_id for one in ids if (run_id := _run_of(one)) is not None}
    pool = consumer_state.consumer.pool
    others = ids - runs.keys()
    if others or not isinstance(pool, RunPool):
        control.revoke(consumer_state, list(others), terminate, signal, **kwargs)
    # Not through Celery's command: it would ask a result backend, which we do not have, about each id.
    state.revoked.update(list(runs))
    _cancel(pool, runs.values(), terminate)
    return {"ok": f"tasks {', '.join(sorted(ids))} flagged as revoked"}


def _terminate(consumer_state: Any, signal: Any, task_id: Any, **kwargs: Any) -> dict[str, str]:
    return _revoke(consumer_state, task_id, terminate=True, signal=signal)


def _run_of(task_id: str) -> str | None:
    ids = parse_task_id(task_id)
    if ids is not None:
        return ids[0]
    return task_id if is_run_id(task_id) else None


def _cancel(pool: Any, run_ids: Iterable[str], terminate: bool) -> None:
    for run_id in set(run_ids):
        pool.revoke(run_id, terminate=terminate)
