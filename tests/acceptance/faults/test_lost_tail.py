"""A store that comes back without the last that it was told, as after a failover: runs go on from there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.acceptance.run_rig import DEADLINE_S, RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import SubagentHandle


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    directory = tmp_path_factory.mktemp("tail")
    with run_rig(directory, agents="faults.tail_agents", appendonly=True) as rig:
        rig.worker(concurrency=4)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    return rig.lifecycle()


@contextmanager
def forgotten(rig: RunRig) -> Iterator[None]:
    """What the server is told within, it has never heard of afterwards; its clients have."""
    rig.store.config_set("appendonly", "no")
    try:
        yield
    finally:
        rig.server.kill()
        rig.server.start()


def asked(rig: RunRig, lifecycle: SubagentLifecycle, agent: str, word: str) -> SubagentHandle:
    """A run whose model has been asked, and has not answered yet."""
    handle = lifecycle.launch(agent=agent, goal=word)
    in_flight(rig, agent)
    return handle


def in_flight(rig: RunRig, agent: str) -> None:
    rig.model.wait_for(lambda model: model.in_flight(agent) == 1, timeout_s=DEADLINE_S)


def times_run(rig: RunRig, word: str) -> int:
    return sum(line.endswith(f" {word}") for line in rig.ledger())


def test_an_answer_that_the_store_forgot_is_asked_for_again(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    rig.model.script("writer", when=lambda asked: asked.messages[0].text == "said").then("said").hold("said")
    handle = asked(rig, lifecycle, "writer", "said")
    with forgotten(rig):
        rig.model.release("said")
        rig.succeeded(lifecycle, handle)

    assert rig.succeeded(lifecycle, handle).summary == "said"
    assert rig.model.count("writer") == 2


def test_a_tool_whose_call_the_store_forgot_is_asked_for_again(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script = rig.model.script("writer", when=lambda asked: asked.messages[0].text == "call")
    script.call("until_there", {"name": "call"}).hold("call").then("${results}")
    handle = asked(rig, lifecycle, "writer", "call")
    with forgotten(rig):
        rig.model.release("call")
        rig.wait_for_trace("call.started")
    rig.trace("call.there").touch()

    assert rig.succeeded(lifecycle, handle).summary == "call is there"
    assert times_run(rig, "call") == 2


def test_a_result_that_the_store_forgot_is_looked_for_again(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script = rig.model.script("writer", when=lambda asked: asked.messages[0].text == "result")
    script.call("until_there", {"name": "result"}).then("${results}").hold("result")
    handle = lifecycle.launch(agent="writer", goal="result")
    rig.wait_for_trace("result.started")
    with forgotten(rig):
        rig.trace("result.there").touch()
        in_flight(rig, "writer")
    rig.model.release("result")

    assert rig.succeeded(lifecycle, handle).summary == "result is there"
    assert times_run(rig, "result") == 2


def test_a_child_that_the_store_forgot_is_launched_again(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    rig.model.script("writer", when=lambda asked: asked.messages[0].text == "child").then("did it").hold(
        "child"
    )
    script = rig.model.script("boss", when=lambda asked: asked.messages[0].text == "delegate")
    script.call("run_agent", {"name": "writer", "task": "child"}).hold("boss").then("${results}")
    handle = asked(rig, lifecycle, "boss", "delegate")
    with forgotten(rig):
        rig.model.release("boss")
        in_flight(rig, "writer")
    rig.model.release("child")

    assert rig.succeeded(lifecycle, handle).summary == "did it"
    assert len(lifecycle.tree(handle)) == 2
