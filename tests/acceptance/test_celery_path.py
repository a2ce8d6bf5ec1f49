"""Wake-ups through a real Celery worker: how they are popped, limited, shown and revoked."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.celery_rig import Rig

from retinue.broker.routes import private_queue
from retinue.broker.wakeups import envelope_of
from retinue.contract.ids import task_id
from retinue.testing.servers import PrivateServer


@pytest.fixture
def rig(valkey_server: PrivateServer, tmp_path: Path) -> Iterator[Rig]:
    valkey_server.flush()
    with ExitStack() as stack:
        yield Rig(valkey_server, tmp_path, stack)


def test_a_wake_up_is_run_and_shown_under_its_agents_name(rig: Rig) -> None:
    monitor = rig.monitor()
    rig.worker("-c", "4")
    wakeup = rig.wakeup()
    rig.send(wakeup)

    task = monitor.wait_for(task_id(wakeup.run_id, 1), "SUCCESS")

    assert rig.list("done") == [wakeup.run_id]
    assert monitor.kinds(task.uuid) == ["task-received", "task-started", "task-succeeded"]
    assert (task.name, task.args, task.kwargs) == ("researcher", wakeup.run_id, "{}")
    assert (task.result, task.root_id) == ("SUCCEEDED, 1 iteration", task.uuid)
    assert task.received
    assert task.runtime > 0
    assert "acme" not in json.dumps(monitor.events)


def test_a_backlog_leaves_in_pops_of_sixteen(rig: Rig) -> None:
    rig.client.config_resetstat()
    rig.send(*(rig.wakeup() for _ in range(160)))
    started_at = time.monotonic()

    rig.worker("-c", "500")

    rig.wait_for_count("done", 160)
    calls = rig.client.info("commandstats")["cmdstat_blmpop"]["calls"]  # pyright: ignore[reportIndexIssue]
    idle_pops = time.monotonic() - started_at + 2
    assert 10 <= calls <= 10 + idle_pops


def test_no_more_runs_than_the_limit_are_taken_from_the_queue(rig: Rig) -> None:
    wakeups = [rig.wakeup("hold") for _ in range(10)]
    rig.send(*wakeups)

    rig.worker("-c", "3")

    rig.wait_for_count("started", 3)
    assert rig.queued() == 7
    rig.release(*(wakeup.run_id for wakeup in wakeups))
    assert sorted(rig.wait_for_count("done", 10)) == sorted(wakeup.run_id for wakeup in wakeups)


def test_a_resumed_run_goes_before_those_that_never_ran(rig: Rig) -> None:
    first = [rig.wakeup(priority=6) for _ in range(5)]
    resumed = rig.wakeup(priority=0)
    rig.send(*first, resumed)

    rig.worker("-c", "1")

    assert rig.wait_for_count("done", 6)[0] == resumed.run_id


def test_a_lent_slot_is_used_at_once(rig: Rig) -> None:
    rig.worker("-c", "1")
    waiting, child = [rig.wakeup("lend") for _ in range(60)], rig.wakeup()
    sent_at = time.monotonic()

    rig.send(*waiting, child)

    assert rig.wait_for_count("done", 1) == [child.run_id]
    # A slot that is lent without waking Celery's loop is found half a second later, on average: in sum 30 s.
    assert time.monotonic() - sent_at < 22
    assert len(rig.list("started")) == 61


def test_a_wake_up_popped_for_a_slot_that_was_taken_back_returns_to_its_queue(rig: Rig) -> None:
    waiting, late = rig.wakeup("lend"), rig.wakeup()
    rig.client.set("message", envelope_of(late, rig.waker.template))
    rig.worker("-c", "1")
    rig.send(waiting)
    rig.wait_for_count("started", 1)

    rig.release(waiting.run_id)

    rig.wait_for_count("taken_back", 1)
    rig.wait_until(lambda: rig.queued() == 1, "the wake-up is back")
    assert rig.list("started") == [task_id(waiting.run_id, 1)]
    rig.release(f"{waiting.run_id} again")
    assert rig.wait_for_count("done", 2) == [waiting.run_id, late.run_id]


def test_each_process_serves_a_private_queue_that_leaves_no_binding_behind(rig: Rig) -> None:
    rig.worker("-c", "2")
    process_id = rig.wait_for_count("process", 1)[0]
    wakeup = rig.wakeup(queue=private_queue(process_id))

    rig.send(wakeup)

    assert rig.wait_for_count("done", 1) == [wakeup.run_id]
    sets = [key for key in rig.client.scan_iter("_kombu.binding.*") if rig.client.type(key) == "set"]
    assert sets
    assert process_id not in json.dumps([[key, *rig.client.smembers(key)] for key in sets])


def test_a_worker_serves_the_queues_of_its_agents(rig: Rig) -> None:
    rig.worker(DUMMY_QUEUES="gpu,fast")
    gpu, other = rig.wakeup(queue="gpu"), rig.wakeup()

    rig.send(gpu, other)

    assert rig.wait_for_count("done", 1) == [gpu.run_id]
    assert rig.queued() == 1


def test_the_option_for_queues_wins_over_those_of_the_agents(rig: Rig) -> None:
    rig.worker("-Q", "retinue", DUMMY_QUEUES="gpu,fast")
    gpu, other = rig.wakeup(queue="gpu"), rig.wakeup()

    rig.send(gpu, other)

    assert rig.wait_for_count("done", 1) == [other.run_id]
    assert rig.queued("gpu") == 1


def test_a_running_task_can_be_inspected(rig: Rig) -> None:
    worker = rig.worker("-c", "7")
    wakeup = rig.wakeup("hold")
    rig.send(wakeup)
    rig.wait_for_count("started", 1)
    inspect = rig.app.control.inspect(timeout=30, limit=1)

    (active,) = inspect.active()["w0@test"]
    (stats,) = inspect.stats().values()
    (found,) = inspect.query_task(task_id(wakeup.run_id, 1)).values()

    assert (active["id"], active["name"]) == (task_id(wakeup.run_id, 1), "researcher")
    assert active["args"] == [wakeup.run_id]
    assert stats["total"] == {"researcher": 1}
    assert (stats["pool"]["max-concurrency"], stats["pool"]["running"]) == (7, 1)
    assert found[task_id(wakeup.run_id, 1)][0] == "active"
    assert inspect.ping() == {"w0@test": {"ok": "pong"}}
    assert worker.running


@pytest.mark.parametrize("terminate", [False, True])
def test_revoking_a_running_task_cancels_its_run(rig: Rig, terminate: bool) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "2")
    wakeup = rig.wakeup("hold")
    rig.send(wakeup)
    rig.wait_for_count("started", 1)

    rig.app.control.revoke(task_id(wakeup.run_id, 1), terminate=terminate)

    task = monitor.wait_for(task_id(wakeup.run_id, 1), "REVOKED")
    assert task.name == "researcher"
    assert rig.list("revoked") == [f"{wakeup.run_id} {'terminate' if terminate else 'plain'}"]
    assert "Failed to mark" not in worker.log_text()


def test_revoking_a_queued_task_cancels_its_run_and_never_starts_it(rig: Rig) -> None:
    monitor = rig.monitor()
    rig.worker("-c", "1")
    busy, queued = rig.wakeup("hold"), rig.wakeup()
    rig.send(busy)
    rig.wait_for_count("started", 1)
    rig.send(queued)

    rig.app.control.revoke(task_id(queued.run_id, 1))

    # At once by the command, and once more when the wake-up is met.
    rig.wait_for_count("revoked", 1)
    assert rig.queued() == 1
    rig.release(busy.run_id)
    task = monitor.wait_for(task_id(queued.run_id, 1), "REVOKED")
    assert (task.name, task.args) == ("researcher", queued.run_id)
    assert rig.wait_for_count("revoked", 2) == [f"{queued.run_id} plain"] * 2
    assert rig.list("started") == [task_id(busy.run_id, 1)]


def test_a_run_id_can_be_revoked_like_a_task_id(rig: Rig) -> None:
    rig.worker("-c", "1")
    wakeup = rig.wakeup()

    rig.app.control.terminate(wakeup.run_id)

    assert rig.wait_for_count("revoked", 1) == [f"{wakeup.run_id} terminate"]


def test_a_failed_run_shows_its_classification_only(rig: Rig) -> None:
    monitor = rig.monitor()
    rig.worker("-c", "1")
    wakeup = rig.wakeup("fail")

    rig.send(wakeup)

    task = monitor.wait_for(task_id(wakeup.run_id, 1), "FAILURE")
    assert (task.exception, task.traceback) == ("TOOL_ERROR", "")


@pytest.mark.parametrize("action", ["crash", "exit"])
def test_what_a_run_raises_ends_that_run_and_is_not_quoted(rig: Rig, action: str) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "2")
    crashing, next_one = rig.wakeup(action), rig.wakeup()

    rig.send(crashing)

    task = monitor.wait_for(task_id(crashing.run_id, 1), "FAILURE")
    assert task.exception == "INTERNAL_ERROR"
    rig.send(next_one)
    assert rig.wait_for_count("done", 1) == [next_one.run_id]
    worker.wait_for_log(f"run.crashed run={crashing.run_id} error=")
    assert "secret" not in worker.log_text()
    assert "secret" not in json.dumps(monitor.events)


def test_messages_that_cannot_be_read_cost_themselves_only(rig: Rig) -> None:
    good = [rig.wakeup() for _ in range(6)]
    whole = envelope_of(good[0], rig.waker.template)
    text = whole.decode()
    bad = [
        b"no json: a secret prompt",
        b"{}",
        b"[1]",
        text.replace('"properties"', '"properites"').encode(),
        text.replace("retinue.delegate", "some.other.task").encode(),
        text.replace(good[0].run_id + ".1", "other").encode(),
        text.replace('"body": "W', '"body": "X').encode(),
    ]
    for at, wakeup in enumerate(good):
        rig.client.lpush("retinue", bad[at], envelope_of(wakeup, rig.waker.template))
    rig.client.lpush("retinue", *bad[len(good) :])

    worker = rig.worker("-c", "50")

    assert sorted(rig.wait_for_count("done", 6)) == sorted(wakeup.run_id for wakeup in good)
    rig.wait_until(lambda: rig.queued() == 0, "an empty queue")
    log = worker.log_text()
    assert "Connection to broker lost" not in log
    assert "secret" not in log


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (("-P", "threads"), {}, "-P threads cannot"),
        (("--pool=solo",), {}, "-P solo cannot"),
        (
            ("-P", "custom"),
            {"CELERY_CUSTOM_WORKER_POOL": "celery.concurrency.thread:TaskPool"},
            "-P custom cannot",
        ),
        (("--autoscale=40,2",), {}, "worker -c 40"),
    ],
)
def test_another_pool_is_refused_with_the_command_that_works(
    rig: Rig, arguments: tuple[str, ...], environment: dict[str, str], named: str
) -> None:
    worker = rig.celery("worker", *arguments, **environment)

    assert worker.wait() == 1
    assert named in worker.log_text()
    assert "celery -A retinue.worker worker -c" in worker.log_text()
    assert "Traceback" not in worker.log_text()


def test_prefork_cannot_be_told_from_the_default(rig: Rig) -> None:
    rig.worker("-P", "prefork", "-c", "2")
    wakeup = rig.wakeup()

    rig.send(wakeup)

    assert rig.wait_for_count("done", 1) == [wakeup.run_id]
