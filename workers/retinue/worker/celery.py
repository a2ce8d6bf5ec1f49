"""The app that `celery -A retinue.worker worker` runs, with its tasks."""

from __future__ import annotations

from typing import cast

from celery import Celery

from retinue.broker.app import create_app
from retinue.broker.envelope import CANARY_TASK, WakeUpKind
from retinue.broker.settings import load_settings
from retinue.contract import RetinueError
from retinue.worker.pool.intake import Intake
from retinue.worker.program import RunWorker


def create_worker_app(app: Celery) -> Celery:
    """Give an app of `create_app` what its workers need: tasks, program and consumer step."""
    for kind in WakeUpKind:
        app.task(
            _never_called,
            name=kind.task_name,
            Strategy="retinue.worker.pool.strategy:create_handler",
            ignore_result=True,
            acks_late=False,
            shared=False,  # else they would turn up in every other app of the process
        )
    app.task(
        _never_called,
        name=CANARY_TASK,
        Strategy="retinue.worker.pool.strategy:create_canary_handler",
        ignore_result=True,
        acks_late=False,
        shared=False,
    )
    cast("dict[str, set[type]]", app.steps)["consumer"].add(Intake)
    app.Worker = app.subclass_with_self(RunWorker)
    return app


def _never_called(tenant: str, run_id: str) -> None:
    raise RuntimeError("a wake-up is handled by its strategy: run it with `celery -A retinue.worker worker`")


def _app() -> Celery:
    try:
        return create_worker_app(create_app(load_settings()))
    except RetinueError as fault:
        # Celery's command shows any other error of this import with a traceback.
        raise SystemExit(f"retinue: {fault}") from fault


app = _app()
app.conf["retinue_queues"] = "retinue.worker.bootstrap:loaded_queues"
