"""Wake-ups that are doubled, forged, stale or lost: messages only ring, and the store decides."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.run_rig import DEADLINE_S, RunRig, of_kind, run_rig

from retinue.broker.app import create_app
from retinue.broker.envelope import EnvelopeTemplate, WakeUpKind
from retinue.broker.routes import private_queue, queue_key
from retinue.client import SubagentLifecycle
from retinue.contract import EventType, Phase, SubagentState, new_run_id

QUEUE = queue_key("retinue", 6)
SLOTS = 8
SECRET = "forged-word"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers, and a leaf that may be held back before it writes its goal down."""
    directory: Path = tmp_path_factory.mktemp("wakeups")
    with run_rig(directory, agents="faults.drain_agents") as rig:
        for worker in [rig.worker(ready=False, concurrency=SLOTS) for _ in range(2)]:
            worker.wait_until_ready(DEADLINE_S)
        for goal in ("fifty", "foreign", "cancelled"):
            held = rig.model.script("leaf", when=lambda request, goal=goal: request.messages[0].text == goal)
            held.hold(goal).call("append", {"line": goal}).then("heard ${results}")
        rig.model.script("leaf").call("append", {"line": "${user}"}).then("heard ${results}")
        yield rig


def test_fifty_wake_ups_of_a_run_to_two_workers_make_one_attempt(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("fifty")
    for worker in rig.workers:
        worker.pause()
    try:
        handle = lifecycle.launch(agent="leaf", goal="fifty")
        rig.store.lpush(QUEUE, *[wakeup(rig, handle.subagent_id)] * 49)
    finally:
        for worker in rig.workers:
            worker.resume()
    rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)
    ring(rig, wakeup(rig, handle.subagent_id), times=50)
    rig.model.release("fifty")

    assert rig.result(lifecycle, handle).summary == "heard wrote fifty"
    before = list(lifecycle.events(handle))
    ring(rig, wakeup(rig, handle.subagent_id), times=50)
    assert list(lifecycle.events(handle)) == before
    assert len(of_kind(before, EventType.RUN_STARTED)) == 1
    assert len(of_kind(before, EventType.MODEL_STARTED)) == 2
    assert count_in_ledger(rig, "fifty") == 1


def test_a_wake_up_of_another_tenants_run_moves_nothing(rig: RunRig) -> None:
    other = SubagentLifecycle(session_id="s", tenant="other", settings=rig.settings)
    with closing(other):
        handle = other.launch(agent="leaf", goal="foreign")
        rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)
        before = list(other.events(handle))
        for tenant in ("_", "forged", "OTHER"):
            ring(rig, wakeup(rig, handle.subagent_id, tenant=tenant), times=5)
        assert list(other.events(handle)) == before
        rig.model.release("foreign")
        assert rig.result(other, handle).summary == "heard wrote foreign"
    assert rig.store.keys("retinue:forged*") == []


def test_garbage_on_the_queue_stops_no_worker_and_takes_no_slot(rig: RunRig) -> None:
    lifecycle, before = rig.lifecycle("garbage"), set(rig.store.keys())
    for message in garbage(rig):
        ring(rig, message, times=3)

    handles = lifecycle.launch_many([{"agent": "leaf", "goal": f"after {n}"} for n in range(3 * SLOTS)])

    assert {rig.result(lifecycle, handle).terminal_state for handle in handles} == {SubagentState.SUCCEEDED}
    for worker in rig.workers:
        assert worker.running
        assert rig.active(worker) == []
        assert SECRET not in worker.log_text()
        assert "reason=not_ours task='shop.tasks.mail'" in worker.log_text()
    assert not [key for key in {*rig.store.keys()} - before if SECRET in str(key) or "p99" in str(key)]


def test_a_lost_wake_up_behind_ten_thousand_stale_ones_is_soon_sent_again(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("stale")
    cancelled = lifecycle.launch(agent="leaf", goal="cancelled")
    rig.model.wait_for(lambda model: model.in_flight("leaf") == 1, timeout_s=30)
    assert lifecycle.cancel(cancelled).accepted
    rig.result(lifecycle, cancelled)
    for worker in rig.workers:
        worker.pause()
    try:
        rig.store.lpush(QUEUE, *[wakeup(rig, cancelled.subagent_id)] * 10_000)
        lost = lifecycle.launch(agent="leaf", goal="lost")
        assert rig.store.lpop(QUEUE)
    finally:
        for worker in rig.workers:
            worker.resume()

    assert rig.result(lifecycle, lost).summary == "heard wrote lost"
    assert rig.store.llen(QUEUE) == 0


def test_a_worker_without_the_agent_does_not_starve_the_ones_that_have_it(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("starving")
    idle = rig.worker(concurrency=100, settings={"agents": "echo_agents"})
    [first, second] = rig.workers[:2]
    second.pause()
    try:
        handles = lifecycle.launch_many([{"agent": "leaf", "goal": f"starving {n}"} for n in range(60)])
        ended = lifecycle.wait_all(handles, DEADLINE_S)
    finally:
        second.resume()
        idle.terminate()

    assert {each.state for each in ended} == {SubagentState.SUCCEEDED}
    assert {count_in_ledger(rig, f"starving {n}") for n in range(60)} == {1}
    assert first.running


def test_ten_thousand_queued_runs_behind_busy_slots_cause_no_storm(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="faults.drain_agents") as rig:
        rig.model.script("leaf").hold("never").say("never")
        rig.worker(concurrency=50)
        lifecycle = rig.lifecycle()
        queued = lifecycle.launch_many([{"agent": "leaf", "goal": "busy"}] * 50)
        rig.model.wait_for(lambda model: model.in_flight("leaf") == 50, timeout_s=30)
        for _ in range(100):
            queued = lifecycle.launch_many([{"agent": "leaf", "goal": "queued"}] * 100)
        rig.store.config_resetstat()

        rig.wait_until(lambda: calls_of(rig, "time") >= 40, "the reaper has looked twenty times")

        assert calls_of(rig, "lpush") == 0
        assert (rig.store.llen(QUEUE), lifecycle.status(queued[-1]).phase) == (10_000, Phase.QUEUED)
        assert rig.model.count() == 50

        # Now every one of them vanishes: what is sent again is bounded, and nothing is sent twice.
        rig.store.delete(QUEUE)
        rig.wait_until(lambda: rig.store.llen(QUEUE) >= 1_000, "they are sent again")
        looks = calls_of(rig, "time") // 2
        assert 0 < rig.store.llen(QUEUE) <= 200 * looks
        ids = [json.loads(each)["headers"]["id"] for each in rig.store.lrange(QUEUE, 0, -1)]
        assert len({each.partition(".")[0] for each in ids}) == len(ids)


def wakeup(rig: RunRig, run_id: str, *, tenant: str = "_", number: int = 1) -> bytes:
    """The message of a wake-up, as a launch or the reaper sends it."""
    return _template(rig).fill(
        WakeUpKind.DELEGATE, tenant, run_id, number, f"{run_id}.1", None, "leaf", "retinue", 6
    )


def ring(rig: RunRig, message: bytes, *, times: int) -> None:
    """Sends a message so often, to each worker and to whoever comes first; returns once all are taken."""
    processes = map(str, rig.store.hkeys("retinue:workers"))
    lists = [QUEUE, *(queue_key(private_queue(process), 6) for process in processes)]
    for key in lists:
        rig.store.lpush(key, *[message] * times)
    rig.wait_until(lambda: not any(rig.store.llen(key) for key in lists), "all messages are taken")


def garbage(rig: RunRig) -> Iterator[bytes]:
    """What is no wake-up, or names no run."""
    run_id = new_run_id(7)
    yield from (b"\xff\xfe\x00", b"not json", b"[]", b"null", b'{"headers":{}}', b"[" * 100_000)
    whole = json.loads(wakeup(rig, run_id))
    yield json.dumps({**whole, "body": "%%%"}).encode()
    yield json.dumps({**whole, "headers": {}}).encode()
    yield json.dumps({**whole, "properties": {}}).encode()
    yield json.dumps(
        {**whole, "headers": {**whole["headers"], "task": "shop.tasks.mail", "argsrepr": SECRET}}
    ).encode()
    yield json.dumps({**whole, "content-type": "application/x-python-serialize"}).encode()
    bodies: list[Any] = [
        [], {}, SECRET, [[]], [["_"], {}, {}], [["_", 5], {}, {}], [[None, run_id], {}, {}],
        [["_", new_run_id(8)], {}, {}], [[SECRET, run_id, 3], {}, {}], [[f"{SECRET}\ud800", run_id], {}, {}],
        [[f"{SECRET}:{{p01}}:\n", run_id], {}, {}], [[SECRET * 100_000, run_id], {}, {}],
        [["", run_id], {}, {}],
    ]  # fmt: skip
    for body in bodies:
        raw = json.dumps(body).encode()
        yield json.dumps({**whole, "body": base64.b64encode(raw).decode()}).encode()
    for forged in (run_id.replace("p07", "p99"), run_id.replace("p07", "p64"), run_id[:-1], f"{run_id}\n"):
        yield wakeup(rig, forged)
    yield wakeup(rig, run_id, number=10**30)
    yield wakeup(rig, run_id)


def count_in_ledger(rig: RunRig, line: str) -> int:
    return [each.split(" ", 1)[1] for each in rig.ledger()].count(line)


def calls_of(rig: RunRig, command: str) -> int:
    """How often the server ran a command."""
    stats: Any = rig.store.info("commandstats")
    return stats.get(f"cmdstat_{command}", {"calls": 0})["calls"]


def _template(rig: RunRig) -> EnvelopeTemplate:
    with closing(create_app(rig.settings)) as app:
        return EnvelopeTemplate.capture(app)
