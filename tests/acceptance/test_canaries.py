"""A canary on the way of Celery's messages: answered at once, in no slot, and no task to whoever watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.celery_rig import Rig

from retinue.broker.canaries import send_canary
from retinue.testing.servers import PrivateServer


@pytest.fixture
def rig(valkey_server: PrivateServer, tmp_path: Path) -> Iterator[Rig]:
    valkey_server.flush()
    with ExitStack() as stack:
        yield Rig(valkey_server, tmp_path, stack)


def send(rig: Rig, nonce: str) -> None:
    rig.execute(*send_canary("retinue", rig.waker.template.canary(nonce, "retinue")))


def test_canaries_are_answered_and_are_no_tasks(rig: Rig) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "2")
    held = rig.wakeup("hold")
    rig.send(held)
    rig.wait_for_count("started", 1)

    for nonce in ("0a", "0b", "0c"):
        send(rig, nonce)
    send(rig, "not a nonce")
    assert set(rig.wait_for_count("canaries", 3)) == {"0a", "0b", "0c"}
    worker.wait_for_log("canary.dropped reason=malformed")

    [stats] = (rig.app.control.inspect(timeout=20).stats() or {}).values()
    assert stats["total"] == {"researcher": 1}
    assert stats["pool"]["running"] == 1
    rig.release(held.run_id)
    rig.wait_for_count("done", 1)
    assert {event["uuid"] for event in monitor.events if event["type"].startswith("task-")} == {
        f"{held.run_id}.1"
    }


def test_a_full_worker_leaves_a_canary_alone_and_a_slot_is_not_late_for_it(rig: Rig) -> None:
    rig.worker("-c", "1")
    held, later = rig.wakeup("hold"), rig.wakeup()
    rig.send(held)
    rig.wait_for_count("started", 1)
    send(rig, "0d")
    rig.send(later)
    assert rig.queued() == 2
    assert rig.list("canaries") == []
    rig.release(held.run_id)
    rig.wait_for_count("done", 2)
    assert rig.list("canaries") == ["0d"]
