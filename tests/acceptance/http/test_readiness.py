"""Readiness: red as soon as a worker that seems to live takes no work, and green again by itself."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.acceptance.http.http_rig import HttpRig, http_rig

from retinue.broker.app import create_app
from retinue.store import keys
from retinue.testing.proxy import FaultProxy
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

AGENTS = "ask_agents,echo_agents"
DEADLINE_S = 60.0
ANONYMOUS = {"X-Forwarded-For": "203.0.113.7"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[HttpRig]:
    """Store and broker are one server; an API process that asks often, and no worker yet."""
    with http_rig(tmp_path, agents=AGENTS) as rig:
        rig.api(http__readiness_seconds=2.0)
        yield rig


class Probe:
    """Asks as an orchestrator does, without a key."""

    def __init__(self, web: HttpRig) -> None:
        self._web = web
        self._http = web.http("")

    def ask(self, path: str = "/readyz", **headers: str) -> httpx2.Response:
        return self._http.get(path, headers=headers)

    def until(self, *, ready: bool, telling: str = "") -> dict[str, Any]:
        """The first answer of that kind whose text holds some words."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.ask()
            told = answer.json()
            assert answer.status_code == (200 if told["ready"] else 503)
            if told["ready"] is ready and telling in answer.text:
                return told
            assert time.monotonic() < deadline, f"not ready={ready} with {telling!r}: {answer.text}"
            time.sleep(0.1)


def name_of(worker: WorkerProcess) -> str:
    return f"{worker.name}@{socket.gethostname()}"


@contextmanager
def control(web: HttpRig) -> Generator[Any]:
    """Celery's own remote control."""
    app = create_app(web.rig.settings)
    try:
        yield app.control
    finally:
        app.close()


def fault(told: dict[str, Any]) -> dict[str, Any]:
    """The one check that is not good."""
    [bad] = [check for check in told["checks"] if not check["ok"]]
    return bad


def test_without_a_worker_the_process_lives_and_is_not_ready(web: HttpRig) -> None:
    probe = Probe(web)
    assert probe.ask("/healthz").json() == {"alive": True}
    told = probe.until(ready=False)
    assert [check["name"] for check in told["checks"]] == ["store", "broker", "workers"]
    assert fault(told)["name"] == "workers"
    web.rig.worker()
    told = probe.until(ready=True)
    assert [check["name"] for check in told["checks"]] == ["store", "broker", "workers", "consuming"]


def test_a_worker_whose_queue_was_cancelled_turns_it_red_until_it_is_added_again(web: HttpRig) -> None:
    worker, probe = web.rig.worker(), Probe(web)
    probe.until(ready=True)
    with control(web) as celery:
        assert celery.cancel_consumer("retinue", destination=[name_of(worker)], reply=True, timeout=20)
        told = probe.until(ready=False, telling="queue retinue")
        assert fault(told)["name"] == "consuming"
        hidden = probe.ask(**ANONYMOUS)
        assert hidden.status_code == 503
        assert "retinue" not in hidden.text
        assert worker.name not in hidden.text
        assert "1 of 1 queues" in hidden.text
        assert celery.add_consumer("retinue", destination=[name_of(worker)], reply=True, timeout=20)
    probe.until(ready=True)
    assert worker.running


def test_a_queue_that_another_worker_serves_is_served(web: HttpRig) -> None:
    one, _ = web.rig.worker(), web.rig.worker()
    probe = Probe(web)
    probe.until(ready=True, telling="2 of 2 workers")
    with control(web) as celery:
        assert celery.cancel_consumer("retinue", destination=[name_of(one)], reply=True, timeout=20)
    probe.until(ready=True)


def test_a_frozen_worker_whose_sidecar_renews_its_lease_turns_it_red(web: HttpRig) -> None:
    worker, probe = web.rig.worker(), Probe(web)
    probe.until(ready=True)
    worker.pause()
    try:
        told = probe.until(ready=False, telling=name_of(worker))
        assert fault(told)["name"] == "consuming"
        assert web.rig.store.keys(keys.lease("*")), "its lease is still renewed"
    finally:
        worker.resume()
    probe.until(ready=True)


@pytest.mark.parametrize("cut", ["silence", "refusal"])
def test_a_worker_that_lost_its_broker_turns_it_red(tmp_path: Path, cut: str) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(PrivateServer("valkey"))
        way = stack.enter_context(FaultProxy(broker.port))
        web = stack.enter_context(http_rig(tmp_path, agents=AGENTS, broker_url=broker.url))
        web.api(http__readiness_seconds=2.0, broker_url=broker.url)
        worker, probe = web.rig.worker(settings={"broker_url": way.url}), Probe(web)
        probe.until(ready=True)
        if cut == "silence":
            way.black_hole(new_too=True)
        else:
            way.refuse()
            way.reset_connections()
        told = probe.until(ready=False, telling=name_of(worker))
        assert fault(told)["name"] == "consuming"
        assert web.rig.store.keys(keys.lease("*")), "its lease is still renewed"
        way.heal()
        if cut == "silence":
            way.reset_connections()
        probe.until(ready=True)


def test_a_full_worker_is_ready_and_canaries_take_no_slot_and_no_place(web: HttpRig) -> None:
    web.rig.model.script("clerk").hold("clerk").say("Late.")
    web.rig.worker(concurrency=1)
    probe = Probe(web)
    probe.until(ready=True)
    lifecycle = web.rig.lifecycle()
    handle = lifecycle.launch(agent="clerk", goal="hold")
    web.rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, timeout_s=45)
    told = probe.until(ready=True, telling="1 of 1 workers full")
    assert told["checks"][-1]["ok"]
    web.rig.wait_until(lambda: web.rig.store.llen("retinue") == 0, "no canary left in the queue")
    [worker] = web.http().get("/v1/workers").json()["workers"]
    assert worker["runs"] == 1
    web.rig.model.release("clerk")
    assert web.rig.result(lifecycle, handle).summary == "Late."
    probe.until(ready=True, telling="1 of 1 workers take")


def test_a_draining_worker_is_not_waited_for(web: HttpRig) -> None:
    web.rig.model.script("clerk").hold("clerk").say("Late.")
    leaving, probe = web.rig.worker(settings={"drain_seconds": 60}), Probe(web)
    lifecycle = web.rig.lifecycle()
    handle = lifecycle.launch(agent="clerk", goal="hold")
    web.rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, timeout_s=45)
    web.rig.worker()
    leaving.terminate()
    leaving.wait_for_log("Warm shutdown", timeout_s=45)
    probe.until(ready=True, telling="1 of 1 workers")
    assert leaving.running
    web.rig.model.release("clerk")
    assert leaving.wait(60) == 0
    assert web.rig.result(lifecycle, handle).summary == "Late."
    assert probe.until(ready=True)


def test_a_worker_of_an_older_release_is_sent_nothing_and_lives_on(web: HttpRig) -> None:
    worker, probe = web.rig.worker(), Probe(web)
    [(process, raw)] = web.rig.store.hgetall(keys.WORKERS).items()
    entry = json.loads(raw)
    assert entry.pop("answers_canaries") is True
    web.rig.store.hset(keys.WORKERS, process, json.dumps(entry))
    probe.until(ready=True, telling="cannot be asked")
    assert web.rig.store.keys("retinue:canary:*") == []
    assert worker.running


def test_a_store_that_is_away_turns_it_red_at_once_and_says_no_secret(web: HttpRig) -> None:
    web.rig.worker()
    probe = Probe(web)
    probe.until(ready=True)
    web.rig.server.stop()
    told = probe.until(ready=False, telling='"store"')
    assert fault(told)["name"] == "store"
    assert str(web.rig.server.port) not in json.dumps(told)
    assert probe.ask("/healthz").status_code == 200
    web.rig.server.start()
    probe.until(ready=True)


def test_many_probes_ask_the_workers_once(web: HttpRig) -> None:
    worker, probe = web.rig.worker(), Probe(web)
    probe.until(ready=True)
    began = time.monotonic()
    for _ in range(200):
        assert probe.ask().status_code == 200
    rounds = (time.monotonic() - began) / 5 + 2
    # Each round leaves three for some seconds: what the worker is asked, its answer, and its queue's.
    assert len(web.rig.store.keys("retinue:canary:*")) <= 3 * rounds
    assert worker.running
