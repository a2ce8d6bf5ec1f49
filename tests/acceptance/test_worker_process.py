"""Workers as the fixture starts them: from the command line, and up when it says so."""

from __future__ import annotations

import pytest

from retinue.testing.processes import ProcessFailedError
from retinue.testing.workers import CELERY_COMMAND, RETINUE_COMMAND, WorkerFactory


@pytest.mark.parametrize("command", [CELERY_COMMAND, RETINUE_COMMAND], ids=["celery", "retinue"])
def test_a_worker_is_ready_and_ends_in_good_order_when_asked(
    worker_process: WorkerFactory, valkey_url: str, command: tuple[str, ...]
) -> None:
    worker = worker_process(valkey_url, concurrency=2, command=command)

    worker.terminate()

    assert worker.wait() == 0


def test_a_worker_that_cannot_import_its_agents_says_which(
    worker_process: WorkerFactory, valkey_url: str
) -> None:
    with pytest.raises(ProcessFailedError) as caught:
        worker_process(valkey_url, agents=["no_such_agents"])

    assert "no_such_agents" in caught.value.log_tail
