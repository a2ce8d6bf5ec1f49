"""What is kept, for how long, and that nothing is left behind: on two worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.cli.exits import ExitCode
from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorCode,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentState,
)
from retinue.store import keys
from retinue.testing import Call, ScriptedRequest, Turn
from retinue.testing.workers import worker_environment

RUNS, A_LAUNCH, SESSIONS = 10_000, 100, 10
TTL_S = 1
CONVERSATION_TTL_S = 6
_OF_PROCESSES = ("workers", "catalogue", "keyring", "reaper", "gone")
"""What processes keep of themselves, under `retinue:`."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Everything expires after a second, but for conversations where a client says so."""
    directory = tmp_path_factory.mktemp("short")
    ttls: dict[str, Any] = {"result_ttl_seconds": TTL_S, "conversation_ttl_seconds": TTL_S}
    with run_rig(directory, agents="control.retention_agents", lease_seconds=5.0, **ttls) as rig:
        rig.keep_workers(2, concurrency=50)
        yield rig


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Nothing expires while the tests go on."""
    directory = tmp_path_factory.mktemp("lasting")
    with run_rig(directory, agents="control.retention_agents", lease_seconds=5.0) as rig:
        rig.keep_workers(2, concurrency=50)
        yield rig


def left(rig: RunRig) -> list[str]:
    """The keys that are no process's own, and not the two that each partition keeps."""
    found = [key.removeprefix("retinue:") for key in rig.store.scan_iter("retinue:*", count=10_000)]
    return [
        name
        for name in found
        if name not in _OF_PROCESSES
        and not name.startswith(("lease:", "drain:", "provider:"))
        and not name.endswith(("}:tenants", "}:queues"))
    ]


@pytest.mark.timeout(180)
def test_no_key_is_left_of_ten_thousand_runs(rig: RunRig) -> None:
    before = set(rig.store.scan_iter(count=10_000))
    for session in range(SESSIONS):
        lifecycle = rig.lifecycle(f"session-{session}")
        for _ in range(RUNS // A_LAUNCH // SESSIONS):
            lifecycle.launch_many(
                {"agent": "noop", "goal": "x", "correlation_id": None} for _ in range(A_LAUNCH)
            )

    ran = rig.trace("ran")
    rig.wait_until(lambda: ran.exists() and ran.stat().st_size >= RUNS, "all have run", timeout_s=150)
    rig.wait_until(lambda: not left(rig), "all has expired", timeout_s=30)

    assert ran.stat().st_size == RUNS, "each ran once"
    new = set(rig.store.scan_iter(count=10_000)) - before
    kept = {keys.partition_prefix(n) + name for n in range(64) for name in ("tenants", "queues")}
    # Apart from what processes keep of themselves, of which there is no more after more runs.
    assert {key for key in new - kept if key.removeprefix("retinue:") not in _OF_PROCESSES} == set()


def waiting_boss(rig: RunRig, lifecycle: SubagentLifecycle, word: str) -> SubagentHandle:
    """A run that waits for a human, in a turn in which all three kinds of children have ended."""
    started: list[str] = []

    def reply(asked: ScriptedRequest) -> Turn | str:
        results = [result.text for result in asked.results]
        if asked.turn == 0:
            background = {"name": "clerk", "task": f"{word} behind", "background": True}
            return Turn(calls=(Call("run_agent", background),))
        if asked.turn == 1:
            started.append(json.loads(results[0])["id"])
            fore = Call("run_agent", {"name": "clerk", "task": f"{word} fore"})
            return Turn(
                calls=(fore, Call("send_out", {"task": f"{word} tool"}), Call("refund", {"order": 1}))
            )
        if asked.turn == 2:
            return Turn(calls=(Call("wait_agents", {"ids": started}),))
        return "; ".join(results[-4:])

    rig.model.script("boss", when=lambda asked: asked.messages[0].text == word).reply(reply)
    rig.model.script("clerk", when=lambda asked: asked.messages[0].text.startswith(word)).say(f"did {word}")
    handle = lifecycle.launch(agent="boss", goal=word)
    waited = lifecycle.wait(handle, timeout_seconds=30, until="asked")
    assert not waited.timed_out, lifecycle.status(handle)
    rig.wait_until(lambda: len(lifecycle.tree(handle)) == 4, "all children were launched")
    return handle


def children_of(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> list[str]:
    return [node.run_id for node in lifecycle.tree(handle) if node.run_id != handle.subagent_id]


def approve(lifecycle: SubagentLifecycle, handle: SubagentHandle) -> None:
    """Lets the boss go on."""
    [request] = lifecycle.pending(handle)
    assert lifecycle.approve(handle, request.request_id).accepted


def test_children_that_expired_while_their_parent_waits_are_still_answered(rig: RunRig) -> None:
    # Its own result is read after its end, however slow the machine is.
    lifecycle = rig.lifecycle(result_ttl_seconds=3600)
    handle = waiting_boss(rig, lifecycle, "wait")
    children = children_of(lifecycle, handle)
    assert len(children) == 3
    rig.wait_until(lambda: not any(rig.store.exists(keys.record("_", run)) for run in children), "expiry")
    assert len(list(lifecycle.events(handle))) > 9, "the log stays until the last of the tree has ended"

    for worker in rig.workers:
        worker.kill()
    rig.keep_workers(2, concurrency=50)
    approve(lifecycle, handle)
    told = str(rig.result(lifecycle, handle).summary)

    assert told.count("did wait") == 3
    assert "refunded 1" in told
    asked = rig.model.requests("clerk")
    assert sum(each.request.messages[0].text.startswith("wait") for each in asked if each.request) == 3
    assert lifecycle.purge(handle) == SubagentPurgeResult(purged=True, runs=1)
    rig.wait_until(lambda: not left(rig), "all else has expired", timeout_s=30)


def test_children_that_were_purged_while_their_parent_waits_are_still_answered(lasting: RunRig) -> None:
    lifecycle = lasting.lifecycle()
    handle = waiting_boss(lasting, lifecycle, "wait")
    children = children_of(lifecycle, handle)
    lasting.wait_until(
        lambda: all(lasting.store.hexists(keys.record("_", run), "fi") for run in children), "their ends"
    )
    assert lifecycle.purge(handle) == SubagentPurgeResult(purged=False, live_run_id=handle.subagent_id)
    log = list(lifecycle.events(handle))
    for run_id in children:
        assert purge_by_command(lasting, run_id) == {"purges": [gone(1)]}
        assert not [name for name in left(lasting) if run_id in name]
    assert list(lifecycle.events(handle)) == log

    approve(lifecycle, handle)
    told = str(lasting.result(lifecycle, handle).summary)

    assert told.count("did wait") == 3
    assert purge_by_command(lasting, handle.subagent_id) == {"purges": [gone(1)]}
    assert left(lasting) == []


def gone(runs: int) -> dict[str, Any]:
    return SubagentPurgeResult(purged=True, runs=runs).to_dict()


def purge_by_command(rig: RunRig, *arguments: str, code: ExitCode = ExitCode.OK) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "retinue.cli", "purge", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=worker_environment({"store_url": rig.server.url}),
        check=False,
    )
    assert done.returncode == code, done.stderr or done.stdout
    return json.loads(done.stdout)


def test_a_conversation_outlives_its_runs_and_then_it_says_so(rig: RunRig) -> None:
    lifecycle = rig.lifecycle("talk", conversation_ttl_seconds=CONVERSATION_TTL_S)
    rig.model.script("clerk", when=lambda asked: asked.messages[0].text == "talk").reply(
        lambda asked: " ".join(message.text for message in asked.messages if message.role == "user")
    )
    first = lifecycle.launch(agent="clerk", goal="talk")
    rig.wait_until(lambda: lifecycle.status(first).state is SubagentState.UNKNOWN, "its result expires")

    second = lifecycle.continue_run(first, "on")
    end = lifecycle.wait(second, timeout_seconds=30)
    assert end.state is SubagentState.SUCCEEDED
    assert lifecycle.full_text(second) == "talk on"

    thread = keys.thread("_", first.subagent_id, first.subagent_id)
    rig.wait_until(lambda: not rig.store.exists(thread), "the conversation expires")
    for handle in (first, second):
        with pytest.raises(SubagentLifecycleError, match="no conversation that is kept") as refused:
            lifecycle.continue_run(handle, "too late")
        assert refused.value.code is ErrorCode.UNKNOWN_HANDLE
        assert "conversation_ttl_seconds" in str(refused.value)
    rig.wait_until(lambda: not left(rig), "all has expired", timeout_s=30)


def test_a_whole_conversation_with_its_trees_goes_by_one_command(lasting: RunRig) -> None:
    lifecycle = lasting.lifecycle("gone")
    boss = lasting.model.script("boss", when=lambda asked: asked.messages[0].text == "gone")
    delegate = Call("run_agent", {"name": "clerk", "task": "gone below"})
    boss.reply(lambda asked: "heard" if asked.results and asked.turn % 2 else Turn(calls=(delegate,)))
    lasting.model.script("clerk", when=lambda asked: asked.messages[0].text == "gone below").say("done")
    first = lifecycle.launch(agent="boss", goal="gone")
    lasting.result(lifecycle, first)
    second = lifecycle.continue_run(first, "and on")
    lasting.result(lifecycle, second)
    [child] = children_of(lifecycle, second)

    assert lifecycle.purge(child) == SubagentPurgeResult.unknown(), "an id is no handle"
    assert lasting.lifecycle("another").purge(first) == SubagentPurgeResult.unknown()
    keep = purge_by_command(lasting, first.subagent_id, "--keep-conversation")
    assert keep == {"purges": [gone(2)]}
    third = lifecycle.continue_run(first, "still on")
    assert lasting.result(lifecycle, third).terminal_state is SubagentState.SUCCEEDED

    assert purge_by_command(lasting, json.dumps(first.to_dict())) == {"purges": [gone(4)]}

    assert left(lasting) == []
    unknown = SubagentPurgeResult.unknown().to_dict()
    answer = purge_by_command(lasting, json.dumps(second.to_dict()), code=ExitCode.UNKNOWN_HANDLE)
    assert answer == {"purges": [unknown]}
