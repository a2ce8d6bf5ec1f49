"""Runs that are removed before their time: all that is theirs goes, and nothing else, in both colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.tool_parent import ToolParent
from tests.integration.store.audit import audit, dump

from retinue.client import ErrorCode, EventType, SubagentHandle, SubagentLifecycleError, SubagentState
from retinue.client.scope import Target
from retinue.client.steps.purge import Purge
from retinue.contract import (
    EVENT_KEYS,
    RequestKind,
    SubagentPurgeResult,
    new_run_id,
    partition_of,
    partition_of_run,
)
from retinue.store.operations import control
from retinue.store.operations.asking import Asked
from retinue.store.operations.purging import (
    BLANK,
    PURGE_CHUNK,
    Goes,
    Logged,
    Removed,
    StillLive,
    Subtree,
    remove,
)
from retinue.store.scripts import script
from retinue.testing.proxy import FaultProxy, Loss
from retinue.testing.servers import PrivateServer

UNKNOWN = SubagentPurgeResult.unknown()
REFUND = Asked(RequestKind.APPROVAL, "refund", "call_1", {"order": 7}, "a" * 64)
NAMES = {"workers", "catalogue", "keyring"}


class Stage:
    """One session's facade, a worker, and the keys behind them."""

    def __init__(self, facades: Facades, worker: StoreWorker) -> None:
        self.facades = facades
        self.lifecycle = facades()
        self.worker = worker

    def left(self) -> list[str]:
        """Every key but those that belong to no run."""
        found = [name.decode() for name in self.worker.link.execute("KEYS", "retinue:*")]
        return [
            name
            for name in found
            if name.removeprefix("retinue:") not in NAMES
            and not name.startswith(("retinue:lease:", "retinue:{http}:", "retinue:once:"))
            and not name.endswith(("}:tenants", "}:queues"))
        ]

    def running(self, **request: Any) -> tuple[SubagentHandle, Any, ToolParent]:
        """A run in the midst of a tool call, which may launch."""
        handle = self.lifecycle.launch(**{"agent": "support", "goal": "secret"} | request)
        return self.started(handle)

    def started(self, handle: SubagentHandle) -> tuple[SubagentHandle, Any, ToolParent]:
        fence = self.worker.claim(handle)
        passed = self.worker.boundary(handle, fence)
        self.worker.record(handle, fence, passed, tools=["fan_out"], partial="so far")
        return handle, fence, ToolParent(handle, fence, depth=handle.depth)

    def children(self, parent: ToolParent, count: int, **request: Any) -> tuple[SubagentHandle, ...]:
        facade = self.facades.of_parent(parent)
        asked = [{"agent": "support", "goal": f"{uuid4()}", **request} for _ in range(count)]
        return facade.launch_many(asked)

    def tree(self, *, leaves: int = 2) -> tuple[SubagentHandle, SubagentHandle, list[SubagentHandle]]:
        """A root, its child and that one's children, all ended, with everything that runs leave behind."""
        root, root_fence, root_call = self.running(correlation_id="c-1", budget={"tokens": 99_999})
        [child] = self.children(
            root_call, 1, budget={"tokens": 9_999}, allowed_toolsets=(), limits={"max_tree": 500}
        )
        _, child_fence, child_call = self.started(child)
        found: list[SubagentHandle] = []
        while len(found) < leaves:
            some = self.children(child_call, min(20, leaves - len(found)))
            for leaf in some:
                self.lifecycle.steer(leaf, "secret steer")
                self.lifecycle.cancel(leaf, "secret reason")
            found += some
        self.worker.finish(child, child_fence)
        self.lifecycle.steer(root, "secret steer")
        self.worker.tool_result(root, root_fence, 1, "fan_out")
        self.worker.finish(root, root_fence)
        return root, child, found

    def ended(self, goal: str = "secret") -> SubagentHandle:
        handle = self.lifecycle.launch(agent="support", goal=goal)
        self.worker.complete(handle)
        return handle

    def turns(self, count: int) -> list[SubagentHandle]:
        """The turns of a conversation, ended."""
        found = [self.ended()]
        while len(found) < count:
            found.append(self.lifecycle.continue_run(found[0], "secret too"))
            self.worker.complete(found[-1])
        return found

    def audit(self, handle: SubagentHandle) -> None:
        """The store is consistent."""
        with redis.Redis.from_url(self.facades.url, decode_responses=True) as server:
            audit(dump(server, "_", partition_of_run(handle.subagent_id)), "_")


@pytest.fixture
def stage(facades: Facades, worker: StoreWorker) -> Stage:
    return Stage(facades, worker)


def test_nothing_is_left_of_a_tree(stage: Stage) -> None:
    root, child, leaves = stage.tree(leaves=2 * PURGE_CHUNK + 7)
    assert len(stage.left()) > 3 * len(leaves)

    assert stage.lifecycle.purge(root) == SubagentPurgeResult(purged=True, runs=2 + len(leaves))

    assert stage.left() == []
    for handle in (root, child, leaves[0]):
        assert stage.lifecycle.status(handle).state is SubagentState.UNKNOWN
    assert stage.lifecycle.list() == ()
    assert stage.lifecycle.purge(root) == UNKNOWN
    assert stage.lifecycle.launch(agent="support", goal="x", correlation_id="c-1"), "the id is free again"


@pytest.mark.direct_only("takes the steps of a purge itself")
def test_one_call_removes_no_more_than_a_chunk(stage: Stage) -> None:
    root, child, leaves = stage.tree(leaves=PURGE_CHUNK + 3)
    subtree = Subtree(stage.worker.key(root), root.parent_session_id, root.subagent_id, "0/", Goes.TREE)
    call = remove(subtree, [leaf.subagent_id for leaf in leaves])
    assert stage.worker.store.run(call) == Removed(PURGE_CHUNK, PURGE_CHUNK)
    assert stage.lifecycle.result(leaves[-1]).terminal_state is SubagentState.CANCELLED
    assert stage.lifecycle.purge(child) == SubagentPurgeResult(purged=True, runs=4)


def test_a_dead_letter_goes_with_its_run(stage: Stage) -> None:
    root = stage.lifecycle.launch(agent="support", goal="secret")
    stage.worker.give_up(root)
    assert stage.lifecycle.dead_letters()
    assert stage.lifecycle.purge(root).purged
    assert stage.lifecycle.dead_letters() == ()
    assert stage.left() == []


def test_a_notice_that_is_not_sent_yet_goes_too(stage: Stage, facades: Facades) -> None:
    root = facades(on_done_tasks=("shop.done",)).launch(
        agent="support", goal="x", on_done={"task": "shop.done"}
    )
    stage.worker.complete(root)
    assert [name for name in stage.left() if ":out:" in name]
    assert stage.lifecycle.purge(root).purged
    assert stage.left() == []


def test_dead_letters_that_outlived_all_else_go_with_their_root(stage: Stage) -> None:
    root, fence, call = stage.running()
    for child in stage.children(call, 2):
        stage.worker.give_up(child)
    stage.worker.finish(root, fence)
    other = stage.lifecycle.launch(agent="support", goal="secret")
    stage.worker.give_up(other)
    kept = stage.worker.key(root).record + ":req"
    for name in stage.left():
        if (":run:" in name or ":tree:" in name or ":th:" in name) and name != kept:
            stage.worker.link.execute("DEL", name)
    assert len(stage.lifecycle.dead_letters()) == 3

    assert stage.lifecycle.purge(other).purged
    assert [letter.root_id for letter in stage.lifecycle.dead_letters()] == [root.subagent_id] * 2
    assert stage.lifecycle.purge(root).purged
    assert stage.left() == []


def test_other_runs_of_the_session_stay(stage: Stage) -> None:
    other, live, gone = stage.ended(), stage.lifecycle.launch(agent="support", goal="y"), stage.ended()
    assert stage.lifecycle.purge(gone).purged
    assert stage.lifecycle.result(other).summary == "done"
    assert [each.handle.subagent_id for each in stage.lifecycle.list()] == [
        live.subagent_id,
        other.subagent_id,
    ]
    stage.audit(other)


@pytest.mark.parametrize("which", ["root", "child"])
def test_what_has_live_runs_at_or_below_it_is_refused_and_left_as_it_is(stage: Stage, which: str) -> None:
    root, root_fence, call = stage.running()
    [child] = stage.children(call, 1, on_parent_end="abandon")
    _, child_fence, child_call = stage.started(child)
    [leaf] = stage.children(child_call, 1, on_parent_end="abandon")
    stage.worker.finish(child, child_fence)
    if which == "root":
        stage.worker.finish(root, root_fence)
    before = sorted(stage.left())

    answer = stage.lifecycle.purge(root if which == "root" else child)

    assert answer == SubagentPurgeResult(purged=False, live_run_id=leaf.subagent_id)
    assert stage.lifecycle.purge(leaf) == answer
    whole = Subtree(stage.worker.key(root), root.parent_session_id, root.subagent_id, "0/", Goes.TREE)
    assert stage.worker.store.run(remove(whole, [child.subagent_id])) == StillLive(
        (root if which == "child" else leaf).subagent_id
    )
    assert sorted(stage.left()) == before
    stage.lifecycle.cancel(leaf)
    assert stage.lifecycle.purge(child) == SubagentPurgeResult(purged=True, runs=2)
    stage.audit(root)


@pytest.mark.parametrize("live", [True, False], ids=["live", "ended"])
def test_a_child_goes_alone_and_its_roots_log_stays_without_its_texts(stage: Stage, live: bool) -> None:
    root, root_fence, call = stage.running(budget={"tokens": 99_999})
    child, other = stage.children(call, 2, budget={"tokens": 9_999}, allowed_toolsets=())
    for run in (child, other):
        stage.worker.ask(run, REFUND)
        stage.lifecycle.steer(run, "secret steer")
        [asked] = stage.lifecycle.pending(run)
        stage.lifecycle.deny(run, asked.request_id, "secret reason")
        stage.lifecycle.cancel(run, "secret reason")
    if not live:
        stage.worker.finish(root, root_fence)
    before = list(stage.lifecycle.events(root))

    assert stage.lifecycle.purge(child) == SubagentPurgeResult(purged=True, runs=1)

    assert not [name for name in stage.left() if child.subagent_id in name]
    assert stage.lifecycle.status(child).state is SubagentState.UNKNOWN
    assert stage.lifecycle.purge(child) == UNKNOWN
    assert stage.lifecycle.result(other).steers[0].text == "secret steer"
    after = list(stage.lifecycle.events(root))
    assert [(each.type, each.run_id, each.at) for each in after] == [
        (each.type, each.run_id, each.at) for each in before
    ]
    texts = {
        EventType.STEER_MISSED: ("text", ""),
        EventType.CANCEL_REQUESTED: ("reason", ""),
        EventType.APPROVAL_REQUESTED: ("arguments", {}),
        EventType.APPROVAL_DECIDED: ("reason", ""),
    }
    for was, became in zip(before, after, strict=True):
        assert became.data.keys() == was.data.keys()
        name, blank = texts.get(was.type, ("", None))
        if was.run_id == child.subagent_id and name:
            assert (was.data[name], became.data[name]) != (blank, was.data[name])
            assert became.data[name] == blank
        else:
            assert became == was
    if live:
        stage.worker.finish(root, root_fence)
    assert stage.lifecycle.result(root).summary == "done"
    stage.audit(root)
    assert stage.lifecycle.purge(root).purged
    assert stage.left() == []


def test_every_event_that_may_hold_a_text_can_be_blanked() -> None:
    texts = {"text", "reason", "arguments", "message", "question", "answer", "goal"}
    held = {kind for kind, names in EVENT_KEYS.items() if names & texts}
    # Why a request is tried again is our own word, and progress does not go to the log.
    assert held - {EventType.MODEL_RETRIED, EventType.TOOL_PROGRESS} == set(BLANK)
    for kind, blank in BLANK.items():
        assert EVENT_KEYS[kind] & texts == blank.keys()
    assert Logged.of(3, b'{"e":"steer.queued","r":"x","t":1,"steer":"s"}') == Logged(3, "x", "", None)


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_any_turn_takes_its_whole_conversation_along(stage: Stage, asked: int) -> None:
    turns = stage.turns(3)
    assert stage.lifecycle.purge(turns[asked]) == SubagentPurgeResult(purged=True, runs=3)
    assert stage.left() == []
    with pytest.raises(SubagentLifecycleError) as refused:
        stage.lifecycle.continue_run(turns[0], "more")
    assert refused.value.code is ErrorCode.UNKNOWN_HANDLE


@pytest.mark.parametrize("asked", [0, 1])
def test_while_a_turn_is_live_none_of_its_conversation_goes(stage: Stage, asked: int) -> None:
    turns = stage.turns(2)
    live = stage.lifecycle.continue_run(turns[0], "more")
    before = sorted(stage.left())
    answer = stage.lifecycle.purge(turns[asked])
    assert answer == SubagentPurgeResult(purged=False, live_run_id=live.subagent_id)
    assert sorted(stage.left()) == before


@pytest.mark.parametrize("asked", [0, 1])
def test_a_conversation_may_be_kept_and_go_on_and_go_later(stage: Stage, asked: int) -> None:
    turns = stage.turns(2)
    assert stage.lifecycle.purge(turns[asked], conversation=False) == SubagentPurgeResult(purged=True, runs=1)
    assert stage.lifecycle.result(turns[asked]).terminal_state is SubagentState.UNKNOWN
    assert stage.lifecycle.result(turns[1 - asked]).summary == "done"

    following = stage.lifecycle.continue_run(turns[asked], "three")
    assert stage.lifecycle.purge(turns[asked]).live_run_id == following.subagent_id
    stage.worker.complete(following)
    stage.audit(following)

    assert stage.lifecycle.purge(turns[asked]) == SubagentPurgeResult(purged=True, runs=2)
    assert stage.left() == []


def test_a_conversation_whose_runs_have_expired_goes_all_the_same(stage: Stage) -> None:
    turns = stage.turns(3)
    for turn in turns:
        stage.worker.link.execute("DEL", stage.worker.key(turn).record)
    assert stage.lifecycle.purge(turns[1]) == SubagentPurgeResult(purged=True, runs=0)
    assert stage.left() == []


def test_the_threads_of_pairs_go_with_their_conversation_in_whatever_circle_they_stand(stage: Stage) -> None:
    root = stage.ended()
    prefix = stage.worker.key(root).record.rpartition("run:")[0] + "th:"
    run = stage.worker.link.execute
    pairs = [f"t{n:031d}" for n in range(3 * PURGE_CHUNK)]
    for number, pair in enumerate(pairs):
        run("RPUSH", prefix + pair, "{}")
        run("SET", f"{prefix}{pair}:ow", "x")
        run("SADD", f"{prefix}{pair}:ps", pairs[(number + 1) % len(pairs)], root.subagent_id, pair)
    run("SADD", f"{prefix}{root.subagent_id}:ps", pairs[0], root.subagent_id)

    assert stage.lifecycle.purge(root, conversation=False).purged
    assert run("EXISTS", prefix + pairs[0]) == 1
    assert stage.lifecycle.purge(root).purged
    assert stage.left() == []


def test_a_handle_of_another_session_or_tenant_and_a_forged_one_are_unknown(
    stage: Stage, facades: Facades
) -> None:
    handle = stage.ended()
    forged = handle.to_dict() | {"subagent_id": new_run_id(partition_of("_", "customer-42"))}
    assert facades("another").purge(handle) == UNKNOWN
    assert facades("customer-42", tenant="another").purge(handle) == UNKNOWN
    assert facades.operator("another").purge(handle) == UNKNOWN
    for wrong in (forged, {}, None, handle.subagent_id, 7):
        assert stage.lifecycle.purge(wrong) == UNKNOWN
    assert stage.lifecycle.result(handle).summary == "done"
    assert facades.operator().purge(handle).purged


def test_a_purge_wants_to_know_about_the_conversation(stage: Stage) -> None:
    handle = stage.ended()
    with pytest.raises(SubagentLifecycleError, match="conversation"):
        stage.lifecycle.purge(handle, conversation="no")


def broken_off(stage: Stage, handle: SubagentHandle, after: int) -> bool:
    """Runs the first steps of a purge; whether there was one more."""
    steps = Purge(Target(handle, stage.worker.key(handle)), conversation=True).steps()
    reply: Any = None
    try:
        for _ in range(after):
            reply = stage.worker.store.run(steps.send(reply))
        steps.send(reply)
    except StopIteration:
        return False
    return True


@pytest.mark.direct_only("takes the steps of a purge itself")
def test_a_purge_that_was_broken_off_anywhere_is_taken_up_by_the_next(stage: Stage) -> None:
    after, goes_on = 0, True
    while goes_on:
        root, _, _ = stage.tree(leaves=PURGE_CHUNK + 3)
        later = stage.lifecycle.continue_run(root, "secret")
        stage.worker.complete(later)
        goes_on = broken_off(stage, later, after)
        assert stage.lifecycle.purge(later).purged == goes_on
        assert stage.left() == [], f"after {after} steps"
        after += 1
    assert after > 8


@pytest.mark.direct_only("takes the steps of a purge itself")
def test_a_child_that_was_purged_in_part_is_taken_up_too(stage: Stage) -> None:
    after, goes_on = 0, True
    while goes_on:
        root, child, _ = stage.tree(leaves=PURGE_CHUNK + 3)
        goes_on = broken_off(stage, child, after)
        assert stage.lifecycle.purge(child).purged == goes_on
        kept = {each.rpartition("run:")[2].partition(":")[0] for each in stage.left() if ":run:" in each}
        assert kept == {root.subagent_id}
        stage.audit(root)
        assert stage.lifecycle.purge(root).purged
        assert stage.left() == []
        after += 1


@pytest.mark.direct_only("takes the steps of a purge itself")
def test_a_turn_that_comes_in_between_stops_the_purge_before_the_thread(stage: Stage) -> None:
    [first, second] = stage.turns(2)
    steps = Purge(Target(second, stage.worker.key(second)), conversation=True).steps()
    reply: Any = None
    following: SubagentHandle | None = None
    answer: Any = None
    while answer is None:
        try:
            call = steps.send(reply)
        except StopIteration as end:
            answer = end.value
            break
        if following is None and getattr(call, "script", None) is script("purge"):
            following = stage.lifecycle.continue_run(first, "more")
        reply = stage.worker.store.run(call)
    assert following is not None
    assert answer == SubagentPurgeResult(purged=False, live_run_id=following.subagent_id)
    stage.worker.complete(following)
    stage.audit(following)


@pytest.mark.direct_only("loses replies of the store")
class TestLostReplies:
    """A store whose replies are lost."""

    @pytest.fixture
    def fresh_store_url(self, proxy: FaultProxy) -> str:
        return proxy.url

    @pytest.fixture
    def worker(self, valkey_server: PrivateServer) -> Iterator[StoreWorker]:
        made = StoreWorker(valkey_server.url)
        made.advertise("support")
        yield made
        made.close()

    @pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
    def test_a_purge_whose_replies_are_lost_is_answered(
        self, stage: Stage, proxy: FaultProxy, loss: Loss
    ) -> None:
        root, _, _ = stage.tree()
        stage.worker.link.execute("SCRIPT", "LOAD", script("purge").body)
        proxy.lose(loss, to=script("purge").sha.encode(), count=2)
        answer = stage.lifecycle.purge(root)
        proxy.lose(loss, count=0)
        assert answer.purged
        assert stage.left() == []


def test_a_sweep_that_comes_late_finds_nothing(stage: Stage) -> None:
    root, _, _ = stage.tree()
    stage.lifecycle.purge(root)
    assert stage.worker.store.run(control.sweep(stage.worker.key(root))).ended == 0
    assert stage.worker.store.run(control.timer(stage.worker.key(root), again_ms=1)) is None
    assert stage.left() == []
