"""Which command lines the worker refuses."""

from __future__ import annotations

import pytest
from celery.concurrency.solo import TaskPool

from retinue.broker.app import POOL
from retinue.worker.pool.run_pool import RunPool
from retinue.worker.program import asked_pool, refusal


@pytest.mark.parametrize("pool", [None, RunPool, POOL])
def test_our_own_pool_is_not_refused(pool: object) -> None:
    assert refusal(pool, None, ["celery", "worker"]) is None


@pytest.mark.parametrize("name", ["gevent", "eventlet", "threads", "solo", "custom"])
def test_another_pool_is_named_as_it_was_asked_for(name: str) -> None:
    reason = refusal(f"celery.concurrency.{name}:TaskPool", None, ["celery", "worker", "-P", name])

    assert reason is not None
    assert reason.startswith(f"-P {name} cannot be used")
    assert "celery -A retinue.worker worker -c 500" in reason


def test_another_pool_of_a_configuration_is_named_by_its_module() -> None:
    assert "-P solo cannot" in str(refusal(TaskPool, None, ["celery", "worker"]))


@pytest.mark.parametrize("autoscale", [(40, 2), "40,2"])
def test_autoscaling_is_answered_with_its_upper_limit(autoscale: object) -> None:
    assert "worker -c 40" in str(refusal(RunPool, autoscale, ["celery", "worker"]))


@pytest.mark.parametrize(
    ("line", "pool"),
    [
        ("worker -P threads -c 3", "threads"),
        ("worker -Pthreads", "threads"),
        ("worker --pool threads", "threads"),
        ("worker --pool=threads", "threads"),
        ("worker -c 3", None),
        ("worker -P", None),
    ],
)
def test_the_pool_is_read_from_every_way_to_write_it(line: str, pool: str | None) -> None:
    assert asked_pool(line.split()) == pool
