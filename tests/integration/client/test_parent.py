"""The facade inside a tool: launches are children of the running call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.patience import wait_until
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.tool_parent import ToolParent

from retinue.agents.effective.grants import Grant
from retinue.client import (
    AsyncSubagentLifecycle,
    ErrorCode,
    SubagentHandle,
    SubagentLifecycle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.client.parent import current_parent
from retinue.contract import child_run_id
from retinue.store.replies import Fence

pytestmark = pytest.mark.direct_only("a running agent's process has a way to the store")


@pytest.fixture
def root(lifecycle: Any, worker: StoreWorker) -> tuple[SubagentHandle, Fence]:
    """A run that is running a tool."""
    handle = lifecycle.launch(agent="support", goal="x")
    fence = worker.claim(handle)
    worker.record(handle, fence, worker.boundary(handle, fence), tools=["fan_out"])
    return handle, fence


@pytest.fixture
def parent(root: tuple[SubagentHandle, Fence]) -> ToolParent:
    return ToolParent(*root)


@pytest.fixture
def running_call(parent: ToolParent) -> Iterator[ToolParent]:
    """The call in whose context the test runs."""
    token = current_parent.set(parent)
    yield parent
    current_parent.reset(token)


def code_of(call: Any, *args: object, **keywords: object) -> ErrorCode:
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value.code


def test_a_child_belongs_to_its_parents_session_and_tree(
    facades: Facades, root: tuple[SubagentHandle, Fence], parent: ToolParent, lifecycle: Any
) -> None:
    child = facades.of_parent(parent).launch(agent="researcher", goal="y")
    assert (child.parent_session_id, child.depth) == ("customer-42", 1)
    assert child.subagent_id == child_run_id(root[0].subagent_id, 1, 0, 1)
    assert lifecycle.status(child).state == SubagentState.PENDING
    assert [node.run_id for node in lifecycle.tree(root[0])] == [root[0].subagent_id, child.subagent_id]
    assert [status.handle for status in lifecycle.list()] == [root[0]]


def test_a_tool_that_runs_again_finds_its_children_again(
    facades: Facades, root: tuple[SubagentHandle, Fence], parent: ToolParent
) -> None:
    tool = facades.of_parent(parent)
    first = [tool.launch(agent="researcher", goal="y"), tool.launch(agent="researcher", goal="z")]
    again = facades.of_parent(ToolParent(*root))
    assert [again.launch(agent="researcher", goal=goal) for goal in ("y", "z")] == first
    other = facades.of_parent(ToolParent(*root))
    assert code_of(other.launch, agent="researcher", goal="other") == ErrorCode.CORRELATION_CONFLICT


def test_a_cap_on_live_children_is_refused_with_its_name(facades: Facades, parent: ToolParent) -> None:
    tool = facades.of_parent(parent)
    tool.launch_many([{"goal": "y"}] * 20)
    with pytest.raises(SubagentLifecycleError, match=r"max_live_children.*20"):
        tool.launch(goal="y")


def test_the_role_degrades_visibly_at_the_deepest_level(
    facades: Facades, root: tuple[SubagentHandle, Fence]
) -> None:
    request = {"goal": "y", "role": "orchestrator"}
    assert facades.of_parent(ToolParent(*root, max_depth=1)).launch(request).role == "leaf"
    assert facades.of_parent(ToolParent(*root, max_depth=2)).launch(request).role == "orchestrator"


def test_a_tree_grows_to_its_limit_of_depth_and_no_further(facades: Facades, worker: StoreWorker) -> None:
    handle = facades(max_depth=1).launch(agent="support", goal="x")
    child = facades.of_parent(ToolParent(handle, worker.claim(handle), max_depth=1)).launch(goal="y")
    nested = facades.of_parent(ToolParent(child, worker.claim(child), depth=1, max_depth=1))
    assert code_of(nested.launch, goal="z") == ErrorCode.DEPTH_EXCEEDED


def test_a_child_asks_for_no_more_than_its_parent_has(
    facades: Facades, root: tuple[SubagentHandle, Fence]
) -> None:
    tool = facades.of_parent(ToolParent(*root, grant=Grant(toolsets=())))
    assert code_of(tool.launch, goal="y", allowed_toolsets=["handbook"]) == ErrorCode.TOOLSET_BROADENING
    assert tool.launch(goal="y", allowed_toolsets=[]).depth == 1


def test_an_ended_cancelled_or_fenced_parent_launches_nothing(
    facades: Facades, root: tuple[SubagentHandle, Fence], lifecycle: Any, worker: StoreWorker
) -> None:
    handle, fence = root
    stale = facades.of_parent(ToolParent(handle, Fence(fence.epoch, "another token")))
    assert code_of(stale.launch, goal="y") == ErrorCode.PARENT_ENDED
    lifecycle.cancel(handle)
    assert code_of(facades.of_parent(ToolParent(*root)).launch, goal="y") == ErrorCode.PARENT_ENDED
    worker.finish(handle, fence, state=SubagentState.CANCELLED)
    assert code_of(facades.of_parent(ToolParent(*root)).launch, goal="y") == ErrorCode.PARENT_ENDED
    assert len(lifecycle.tree(handle)) == 1


@pytest.mark.parametrize("colour", ["sync"], indirect=True)
def test_a_plain_facade_finds_the_running_parent(
    facades: Facades, root: tuple[SubagentHandle, Fence], running_call: ToolParent
) -> None:
    plain = facades.keep(SubagentLifecycle(settings=facades.settings()))
    assert plain.launch(goal="y").subagent_id == child_run_id(root[0].subagent_id, 1, 0, 1)
    assert facades("another").launch(agent="support", goal="a root of its own").depth == 0
    token = current_parent.set(None)
    assert code_of(plain.launch, goal="y") == ErrorCode.NO_PARENT
    current_parent.reset(token)


@pytest.mark.parametrize("colour", ["sync"], indirect=True)
def test_a_wait_lends_the_slot_only_while_it_blocks(
    facades: Facades, parent: ToolParent, worker: StoreWorker
) -> None:
    tool = facades.of_parent(parent)
    handles = tool.launch_many([{"goal": "y"}] * 2)
    ends: list[Any] = []
    waiter = threading.Thread(target=lambda: ends.append(tool.wait_all(handles, timeout_seconds=60)))
    waiter.start()
    wait_until(lambda: parent.lent == 1)
    worker.complete(handles[1])
    worker.complete(handles[0])
    waiter.join(30)
    assert [end.completed for end in ends[0]] == [True, True]
    assert (parent.lent, parent.lends) == (0, 1)
    tool.wait(handles[0])
    tool.status(handles[0])
    assert parent.lends == 1


@pytest.mark.parametrize("colour", ["async"], indirect=True)
async def test_a_wait_in_an_asynchronous_tool_lends_the_slot_too(
    facades: Facades, parent: ToolParent, running_call: ToolParent, worker: StoreWorker
) -> None:
    async with AsyncSubagentLifecycle(settings=facades.settings()) as tool:
        handle = await tool.launch(goal="y")
        waiting = asyncio.create_task(tool.wait(handle, timeout_seconds=60))
        await asyncio.to_thread(wait_until, lambda: parent.lent == 1)
        worker.complete(handle)
        assert (await waiting).completed
    assert (parent.lent, parent.lends) == (0, 1)
