"""Steers that come while a run ends, and a thousand at once: each is delivered or missed, none is lost."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.acceptance.run_rig import RunRig, of_kind

from retinue.client import SubagentLifecycle
from retinue.contract import EventType, SteerReceipt, SteerState, SubagentHandle
from retinue.store import keys

RUNS = 200
AT_A_TIME = 10
MOST_ROUNDS = 4
"""Model requests of a run: one that is steered again and again ends by its limit."""
BURST = 1_000
_KINDS = {
    EventType.STEER_QUEUED: SteerState.QUEUED,
    EventType.STEER_DELIVERED: SteerState.DELIVERED,
    EventType.STEER_MISSED: SteerState.MISSED,
}


def test_a_steer_that_races_with_the_end_is_delivered_or_missed(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    rig.model.script("hand", when=lambda request: request.messages[0].text.startswith("race")).say(
        "done"
    ).repeat_last()

    def one(number: int) -> tuple[int, int, int]:
        return race(rig, lifecycle, f"race {number}")

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        numbers = list(pool.map(one, range(RUNS)))
    delivered, missed, refused = (sum(column) for column in zip(*numbers, strict=True))
    print(f"delivered {delivered}, missed {missed}, refused {refused}")
    assert delivered > 0
    assert refused > 0, "every run has ended while it was still being steered"


def race(rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> tuple[int, int, int]:
    """Steers a run until it takes no more; gives how many were delivered, missed and refused."""
    rng = random.Random()
    handle = lifecycle.launch(agent="hand", goal=goal, max_iterations=MOST_ROUNDS)
    sent: list[SteerReceipt] = []
    texts: list[str] = []
    while not sent or sent[-1].state is SteerState.QUEUED:
        time.sleep(rng.random() ** 3 * 0.05)  # some at once, some when it is over
        texts.append(f"{goal}: message {len(texts)}")
        sent.append(lifecycle.send_steer(handle, texts[-1]))
    refused, refused_text = sent.pop(), texts.pop()
    assert (refused.state, refused.text) == (SteerState.MISSED, refused_text)

    result = rig.result(lifecycle, handle)
    assert [steer.steer_id for steer in result.steers] == [receipt.steer_id for receipt in sent]
    states = [steer.state for steer in result.steers]
    assert set(states) <= {SteerState.DELIVERED, SteerState.MISSED}
    delivered = [t for t, steer in zip(texts, result.steers, strict=True) if steer.iteration is not None]
    missed = [t for t, steer in zip(texts, result.steers, strict=True) if steer.state is SteerState.MISSED]
    assert len(delivered) + len(missed) == len(sent)
    assert [steer.text for steer in result.steers if steer.text is not None] == missed
    assert steers_in_thread(rig, handle) == delivered
    check_told(lifecycle, handle, result.steers)
    return len(delivered), len(missed), 1


def check_told(
    lifecycle: SubagentLifecycle, handle: SubagentHandle, receipts: Sequence[SteerReceipt]
) -> None:
    """Asserts that log, result and `steer_status` say the same."""
    events = [event for event in lifecycle.events(handle) if event.type in _KINDS]
    told = [(e.data["steer"], _KINDS[e.type], e.data.get("iteration"), e.data.get("text")) for e in events]
    queued = [(receipt.steer_id, SteerState.QUEUED, None, None) for receipt in receipts]
    ended = [(r.steer_id, r.state, r.iteration, r.text) for r in receipts]
    assert [entry for entry in told if entry[1] is SteerState.QUEUED] == queued
    assert [entry for entry in told if entry[1] is not SteerState.QUEUED] == ended
    for receipt in receipts:
        assert lifecycle.steer_status(handle, receipt.steer_id) == receipt


def steers_in_thread(rig: RunRig, handle: SubagentHandle) -> list[str]:
    """What users have said in a run's thread, after the goal."""
    raw = rig.store.lrange(keys.thread("_", handle.subagent_id, handle.subagent_id), 0, -1)
    assert isinstance(raw, list)
    entries = [json.loads(entry) for entry in raw]
    return [entry["content"] for entry in entries if entry["role"] == "user"][1:]


@pytest.mark.parametrize("senders", [1, 8])
def test_of_a_burst_of_a_thousand_none_is_lost_and_each_sender_keeps_its_order(
    rig: RunRig, lifecycle: SubagentLifecycle, senders: int
) -> None:
    goal = f"burst of {senders}"
    script = rig.model.script("hand", when=lambda request: request.messages[0].text == goal)
    script.say("first").hold(goal).then("second")
    handle = lifecycle.launch(agent="hand", goal=goal)
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_STARTED)

    def send(sender: int) -> list[SteerReceipt]:
        return [lifecycle.send_steer(handle, f"{sender}/{n}") for n in range(BURST // senders)]

    with ThreadPoolExecutor(senders) as pool:
        receipts = [receipt for part in pool.map(send, range(senders)) for receipt in part]
    assert {receipt.state for receipt in receipts} == {SteerState.QUEUED}
    assert not lifecycle.steer(handle, "one too many")
    rig.model.release(goal)
    result = rig.result(lifecycle, handle)

    assert result.summary == "second"
    assert {(steer.state, steer.iteration) for steer in result.steers} == {(SteerState.DELIVERED, 2)}
    assert {steer.steer_id for steer in result.steers} == {receipt.steer_id for receipt in receipts}
    seen = steers_in_thread(rig, handle)
    assert len(seen) == BURST
    for sender in range(senders):
        own = [text for text in seen if text.startswith(f"{sender}/")]
        assert own == [f"{sender}/{n}" for n in range(BURST // senders)]
    assert len(of_kind(list(lifecycle.events(handle)), EventType.STEER_DELIVERED)) == BURST


def test_a_message_sent_again_under_its_id_is_there_once(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script = rig.model.script("hand", when=lambda request: request.messages[0].text == "twice")
    script.say("first").hold("twice").then("second")
    handle = lifecycle.launch(agent="hand", goal="twice")
    rig.wait_for_event(lifecycle, handle, EventType.MODEL_STARTED)

    for _ in range(2):
        receipt = lifecycle.send_steer(handle, "Be brief.", steer_id="mine")
        assert receipt == SteerReceipt(steer_id="mine", state=SteerState.QUEUED)
    rig.model.release("twice")
    result = rig.result(lifecycle, handle)

    delivered = SteerReceipt(steer_id="mine", state=SteerState.DELIVERED, iteration=2)
    assert result.steers == (delivered,)
    assert lifecycle.send_steer(handle, "Be brief.", steer_id="mine") == delivered
    assert steers_in_thread(rig, handle) == ["Be brief."]


def test_an_object_misses_what_came_before_it_was_known_to_be_one_and_takes_nothing_more(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    for worker in rig.workers:
        worker.pause()
    try:
        handle = lifecycle.launch(agent="sleeper", goal="object")
        early = lifecycle.send_steer(handle, "Early.")
    finally:
        for worker in rig.workers:
            worker.resume()
    rig.wait_for_trace("object.started")
    assert early.state is SteerState.QUEUED
    unsupported = SteerReceipt(steer_id="", state=SteerState.UNSUPPORTED)
    assert lifecycle.send_steer(handle, "Late.") == unsupported
    lifecycle.cancel(handle)
    [missed] = rig.result(lifecycle, handle).steers
    assert (missed.steer_id, missed.state, missed.text) == (early.steer_id, SteerState.MISSED, "Early.")
