"""The Celery side when things break: signals, cut connections, a restarted and a full server."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.acceptance.celery_rig import Rig

from retinue.broker.routes import private_queue
from retinue.broker.wakeups import envelope_of
from retinue.contract.ids import task_id
from retinue.testing.servers import PrivateServer, ServerKind, server_binary


@pytest.fixture(params=list(ServerKind))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """A rig on a server of its own, which may be broken."""
    if server_binary(request.param) is None:
        pytest.skip(f"no {request.param} server on this machine")
    with ExitStack() as stack:
        yield Rig(stack.enter_context(PrivateServer(request.param, appendonly=True)), tmp_path, stack)


@contextmanager
def steady_stream(rig: Rig) -> Iterator[list[str]]:
    """Sends wake-ups as fast as they go, until left; gives the run ids."""
    sent: list[str] = []
    ended = threading.Event()

    def send() -> None:
        while not ended.is_set():
            wakeups = [rig.wakeup() for _ in range(10)]
            rig.send(*wakeups)
            sent.extend(wakeup.run_id for wakeup in wakeups)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


def test_a_worker_that_is_stopped_under_load_loses_no_wake_up(rig: Rig) -> None:
    worker = rig.worker("-c", "20")
    with steady_stream(rig) as sent:
        rig.wait_for_count("done", 200)
        worker.terminate()
        assert worker.wait() == 0

    done = rig.list("done")
    assert len(done) == len(set(done))
    assert rig.queued() == len(sent) - len(done)
    rig.worker("-c", "20")
    assert sorted(rig.wait_for_count("done", len(sent))) == sorted(sent)


def test_a_worker_that_is_stopped_hands_its_runs_back_first(rig: Rig) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "5", RETINUE_DRAIN_SECONDS="15")
    held = [rig.wakeup("hold") for _ in range(3)]
    rig.send(*held)
    rig.wait_for_count("started", 3)

    worker.terminate()

    assert worker.wait() == 0
    assert rig.list("stopping") == ["15"]
    for wakeup in held:
        assert monitor.wait_for(task_id(wakeup.run_id, 1), "SUCCESS").result == "handed back"


def test_a_wake_up_popped_at_the_end_is_back_before_the_runs_are(rig: Rig) -> None:
    worker = rig.worker("-c", "5", RETINUE_DRAIN_SECONDS="100")
    rig.send(rig.wakeup("stubborn"))
    rig.wait_for_count("started", 1)
    worker.terminate()
    rig.wait_for_count("stopping", 1)

    rig.send(rig.wakeup())

    rig.wait_until(lambda: rig.queued() == 1, "the wake-up is back")
    assert worker.running
    assert len(rig.list("started")) == 1


def test_a_run_that_does_not_stop_in_time_is_cancelled(rig: Rig) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "5", RETINUE_DRAIN_SECONDS="0.3")
    wakeup = rig.wakeup("stubborn")
    rig.send(wakeup)
    rig.wait_for_count("started", 1)

    worker.terminate()

    assert worker.wait(30) == 0
    assert monitor.wait_for(task_id(wakeup.run_id, 1), "FAILURE").exception == "WORKER_LOST"


def test_a_second_signal_ends_the_wait_for_runs(rig: Rig) -> None:
    worker = rig.worker("-c", "5", "-l", "debug", RETINUE_DRAIN_SECONDS="300")
    rig.send(rig.wakeup("stubborn"))
    rig.wait_for_count("started", 1)
    worker.terminate()
    worker.wait_for_log("Stopping Pool")

    worker.signal(signal.SIGQUIT)

    worker.wait(30)
    assert rig.list("stopping") == ["300", "0"]


def test_cut_connections_cost_no_wake_up_and_repeat_none(rig: Rig) -> None:
    worker = rig.worker("-c", "20")
    with steady_stream(rig) as sent:
        for round_ in range(1, 4):
            rig.wait_for_count("done", round_ * 200)
            rig.kill_connections()
            worker.wait_for_log("Connection to broker lost", count=round_)

    assert sorted(rig.wait_for_count("done", len(sent))) == sorted(sent)
    assert len(rig.list("done")) == len(sent)


def test_the_limit_and_the_private_queue_hold_after_a_reconnect(rig: Rig) -> None:
    worker = rig.worker("-c", "2")
    held = [rig.wakeup("hold") for _ in range(2)]
    rig.send(*held)
    rig.wait_for_count("started", 2)

    rig.kill_connections()

    worker.wait_for_log("Connection to broker lost")
    worker.wait_for_log("Connected to", count=2)
    monitor = rig.monitor()
    queued, private = rig.wakeup(), rig.wakeup(queue=private_queue(rig.list("process")[0]))
    rig.send(queued, private)
    (stats,) = rig.app.control.inspect(timeout=10, limit=1).stats().values()  # it is back
    assert stats["pool"]["running"] == 2
    assert rig.queued() == 1
    rig.release(held[0].run_id)
    rig.wait_for_count("done", 3)
    assert rig.list("done")[0] == held[0].run_id
    monitor.wait_for(task_id(held[0].run_id, 1), "SUCCESS")
    monitor.wait_for(task_id(queued.run_id, 1), "SUCCESS")


def test_runs_that_end_while_the_connection_is_down_are_shown(rig: Rig) -> None:
    monitor = rig.monitor()
    worker = rig.worker("-c", "20")
    held = [rig.wakeup("hold") for _ in range(10)]
    rig.send(*held)
    for wakeup in held:
        monitor.wait_for(task_id(wakeup.run_id, 1), "STARTED")

    rig.kill_connections()
    rig.release(*(wakeup.run_id for wakeup in held))

    for wakeup in held:
        monitor.wait_for(task_id(wakeup.run_id, 1), "SUCCESS")
    assert "Connection to broker lost" in worker.log_text()


def test_a_restarted_server_costs_no_wake_up(rig: Rig) -> None:
    rig.worker("-c", "2")
    held = [rig.wakeup("hold") for _ in range(2)]
    queued = [rig.wakeup() for _ in range(40)]
    rig.send(*held, *queued)
    rig.wait_for_count("started", 2)

    rig.server.restart()

    rig.release(*(wakeup.run_id for wakeup in held))
    done = rig.wait_for_count("done", 42)
    assert sorted(done) == sorted(wakeup.run_id for wakeup in (*held, *queued))


def test_a_server_at_its_memory_limit_stops_no_worker(rig: Rig) -> None:
    worker = rig.worker("-c", "50")
    backlog = [rig.wakeup("hold") for _ in range(60)]
    late = [rig.wakeup() for _ in range(5)]
    rig.send(*backlog[:50])
    rig.wait_for_count("started", 50)
    rig.send(*backlog[50:])
    rig.release(*(wakeup.run_id for wakeup in backlog))
    rig.client.config_set("maxmemory", 1)
    rig.kill_connections()
    worker.wait_for_log("Connection to broker lost")
    worker.wait_for_log("Connected to", count=2)

    rig.client.config_set("maxmemory", 0)

    rig.wait_for_count("done", 60)
    rig.send(*late)
    rig.wait_for_count("done", 65)
    assert worker.running
    assert "Unrecoverable" not in worker.log_text()


def test_wake_ups_are_put_back_at_a_memory_limit_too(rig: Rig) -> None:
    worker = rig.worker("-c", "1")
    waiting, late = rig.wakeup("lend"), rig.wakeup()
    rig.send(waiting)
    rig.wait_for_count("started", 1)
    rig.client.set("message", envelope_of(late, rig.waker.template))
    rig.release(waiting.run_id)
    rig.wait_for_count("taken_back", 1)
    rig.client.config_set("maxmemory", 1)

    # Held for a moment in the pool, or still unread in the socket: either way it must return.
    worker.terminate()
    assert worker.wait() == 0

    rig.client.config_set("maxmemory", 0)
    assert rig.queued() == 1


def test_a_killed_worker_leaves_nothing_of_its_own_on_the_broker(rig: Rig) -> None:
    worker = rig.worker("-c", "5")
    rig.send(rig.wakeup("hold"))
    rig.wait_for_count("started", 1)

    worker.kill()

    names = set(rig.client.scan_iter("*"))
    assert not names & {"unacked", "unacked_index", "unacked_mutex"}
    assert not [name for name in names if "retinue.worker" in name]


def test_an_idle_worker_stops_at_once(rig: Rig) -> None:
    worker = rig.worker("-c", "5", RETINUE_DRAIN_SECONDS="100")

    worker.terminate()

    assert worker.wait(30) == 0  # and not after the time that runs would get
