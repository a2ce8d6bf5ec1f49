"""Which queues runs wait in: known from the store alone, whoever routed them there."""

from __future__ import annotations

from tests.integration.store.stage import Stage

from retinue.store import keys
from retinue.store.operations import control


def _known(stage: Stage) -> set[str]:
    return {name for name in stage.server.smembers(keys.queues(stage.partition)) if stage.tenant in name}


def test_a_launch_and_a_return_to_the_queue_make_it_known(stage: Stage) -> None:
    queue = f"gpu-{stage.tenant}"
    run = stage.root(queue=queue)
    assert _known(stage) == {queue}

    attempt = stage.claim(run)
    assert stage.run(control.forget_queue(stage.partition, queue))
    assert _known(stage) == set()
    stage.run(attempt.hand_back())
    assert _known(stage) == {queue}


def test_a_queue_is_forgotten_only_while_no_run_waits_in_it(stage: Stage) -> None:
    queue = f"gpu-{stage.tenant}"
    first, second = stage.root(queue=queue), stage.root(queue=queue)
    for run in (first, second):
        assert not stage.run(control.forget_queue(stage.partition, queue))
        assert _known(stage) == {queue}
        stage.end(run)

    assert stage.run(control.forget_queue(stage.partition, queue))
    assert _known(stage) == set()
    assert not stage.run(control.forget_queue(stage.partition, queue)), "it was forgotten before"
