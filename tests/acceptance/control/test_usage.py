"""Usage: what the model's server answered stands at the root, through a worker's death and any end."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import (
    ErrorClassification,
    EventType,
    SubagentHandle,
    SubagentResult,
    SubagentState,
    Usage,
)
from retinue.testing.faults import bad_request, overloaded
from retinue.testing.record import RecordedRequest
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Call, Turn, TurnUsage

HANDS = 3
PRICES = {"scripted": {"input": 2.5, "output": 10, "cached": 1.25}}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    directory = tmp_path_factory.mktemp("usage")
    with run_rig(directory, agents="control.usage_agents", prices=PRICES, losses_before_worker_lost=2) as rig:
        yield rig


def _tokens(name: str, turn: int) -> TurnUsage:
    """What a reply reports: for each agent and turn something of its own, none of it round."""
    weight = 1 + sum(map(ord, name)) % 50 + 7 * turn
    return TurnUsage(
        input_tokens=101 * weight,
        output_tokens=13 * weight,
        cached_tokens=7 * weight,
        reasoning_tokens=weight,
    )


def _used(name: str, turn: int) -> Usage:
    told = _tokens(name, turn)
    assert told.input_tokens is not None
    assert told.output_tokens is not None
    plain = told.input_tokens - told.cached_tokens
    micro_usd = ceil(plain * 2.5 + told.cached_tokens * 1.25 + told.output_tokens * 10)
    return Usage(
        model_calls=1,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        cached_tokens=told.cached_tokens,
        reasoning_tokens=told.reasoning_tokens,
        cost_usd=micro_usd / 1_000_000,
    )


def _answered(requests: tuple[RecordedRequest, ...]) -> Usage:
    """What the server has answered in all."""
    total = Usage(cost_usd=0.0)
    for request in requests:
        if request.status == 200 and not request.disconnected:
            assert request.agent is not None
            assert request.request is not None
            total += _used(request.agent, request.request.turn)
    return total


def _tokens_and_cost(used: Usage) -> tuple[Any, ...]:
    return (
        used.model_calls,
        used.input_tokens,
        used.output_tokens,
        used.cached_tokens,
        used.reasoning_tokens,
        used.cost_usd,
    )


def _boss(asked: ScriptedRequest) -> Turn:
    calls = [Call("run_agent", {"name": "lead", "task": f"lead {side}"}) for side in ("left", "right")]
    return _turn("boss", asked, calls)


def _lead(asked: ScriptedRequest) -> Turn:
    side = asked.messages[0].text.split()[-1]
    tasks = [f"{side} {number}" for number in range(HANDS)]
    return _turn("lead", asked, [Call("run_agent", {"name": "hand", "task": task}) for task in tasks])


def _hand(asked: ScriptedRequest) -> Turn:
    return _turn("hand", asked, [Call("look", {"at": "it"}), Call("hold_on", {"gate": "gate"})])


def _turn(name: str, asked: ScriptedRequest, calls: list[Call]) -> Turn:
    usage = _tokens(name, asked.turn)
    return Turn(calls=tuple(calls), usage=usage) if asked.turn == 0 else Turn(text="done", usage=usage)


def test_the_sums_at_the_root_are_what_the_server_answered_although_a_worker_died(rig: RunRig) -> None:
    rig.model.script("boss").reply(_boss)
    rig.model.script("lead").reply(_lead)
    rig.model.script("hand").fault_any_turn(overloaded(), times=2).reply(_hand)
    victim, _ = rig.keep_workers(2, concurrency=4)
    lifecycle = rig.lifecycle("sums")

    handle = lifecycle.launch(agent="boss", goal="all of it")
    # Each hand has looked, and holds on: every response so far is recorded.
    rig.wait_for_event(lifecycle, handle, EventType.TOOL_FINISHED, count=2 * HANDS)
    live = lifecycle.status(handle)
    assert live.tree_usage is not None
    assert _tokens_and_cost(live.tree_usage) == _tokens_and_cost(_answered(rig.model.requests()))
    victim.kill()
    rig.trace("gate").touch()
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    events = list(lifecycle.events(handle))
    lost = len(of_kind(events, EventType.ATTEMPT_LOST))
    nodes = lifecycle.tree(handle)
    by_node = sum((node.usage for node in nodes if node.usage), Usage(cost_usd=0.0))
    status = lifecycle.status(handle)
    assert lost > 0
    assert status.tree_usage == by_node
    assert result.usage_metadata["tree"] == by_node.to_dict()
    assert _tokens_and_cost(by_node) == _tokens_and_cost(_answered(rig.model.requests()))
    assert by_node.retries == len(of_kind(events, EventType.MODEL_RETRIED)) == 2
    assert by_node.attempts == 3 + 2 * HANDS + lost
    assert by_node.tools == {"run_agent": 2 + 2 * HANDS, "look": 2 * HANDS, "hold_on": 2 * HANDS}
    assert by_node.waiting_seconds > 0
    assert min(by_node.tool_seconds[name] for name in ("run_agent", "hold_on")) > 0
    own = _used("boss", 0) + _used("boss", 1)
    assert result.usage_metadata["cost_usd"] == own.cost_usd
    assert result.tool_execution_summary["tools"] == {"run_agent": 2}
    assert result.tool_execution_summary["tool_seconds"].keys() == {"run_agent"}
    assert lifecycle.result(handle) == result


def _check_ended(
    lifecycle: SubagentLifecycle, handle: SubagentHandle, result: SubagentResult, right: Usage, *tools: str
) -> None:
    """Status, result and tree all tell it."""
    [node] = lifecycle.tree(handle)
    status = lifecycle.status(handle)
    assert status.usage == status.tree_usage == node.usage
    assert status.usage is not None
    assert _tokens_and_cost(status.usage) == _tokens_and_cost(right)
    assert list(status.usage.tools) == list(tools)
    own = dict(result.usage_metadata)
    assert own.pop("tree") == own == status.usage.to_dict()
    assert result.tool_execution_summary["tools"] == dict(status.usage.tools)


def _plays(rig: RunRig, name: str, goal: str, *calls: Call) -> None:
    """One turn that calls, for the run with that goal."""

    def reply(asked: ScriptedRequest) -> Turn:
        return _turn(name, asked, list(calls))

    rig.model.script(name, when=lambda request: request.messages[0].text == goal).reply(reply)


def test_a_failed_run_tells_what_it_used(rig: RunRig) -> None:
    rig.keep_workers(2, concurrency=4)
    script = rig.model.script("hand", when=lambda request: request.messages[0].text == "fails")
    script.call("look", {"at": "it"}).usage(_tokens("hand", 0))
    script.then("never").fault(bad_request(), times=None)
    lifecycle = rig.lifecycle("failed")
    handle = lifecycle.launch(agent="hand", goal="fails")
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.FAILED
    _check_ended(lifecycle, handle, result, _used("hand", 0), "look")


def test_a_cancelled_run_tells_what_it_used(rig: RunRig) -> None:
    rig.keep_workers(2, concurrency=4)
    _plays(rig, "hand", "is cancelled", Call("look", {"at": "it"}), Call("hold_on", {"gate": "never"}))
    lifecycle = rig.lifecycle("cancelled")
    handle = lifecycle.launch(agent="hand", goal="is cancelled")
    rig.wait_for_event(lifecycle, handle, EventType.TOOL_FINISHED)
    assert lifecycle.cancel(handle).accepted
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.CANCELLED
    assert result.usage_metadata["tools"]["look"] == 1
    _check_ended(lifecycle, handle, result, _used("hand", 0), *result.usage_metadata["tools"])


def test_an_interrupted_run_tells_what_it_used(rig: RunRig) -> None:
    rig.keep_workers(2, concurrency=4)
    _plays(rig, "brief", "is brief", Call("look", {"at": "it"}))
    lifecycle = rig.lifecycle("interrupted")
    handle = lifecycle.launch(agent="brief", goal="is brief")
    result = rig.result(lifecycle, handle)
    assert result.error_classification is ErrorClassification.MAX_ITERATIONS
    _check_ended(lifecycle, handle, result, _used("brief", 0), "look")


def test_a_run_that_is_given_up_tells_what_it_used(rig: RunRig) -> None:
    rig.keep_workers(2, concurrency=4)
    _plays(rig, "doomed", "is lost", Call("die", {}))
    lifecycle = rig.lifecycle("lost")
    handle = lifecycle.launch(agent="doomed", goal="is lost")
    result = rig.result(lifecycle, handle)
    assert result.error_classification is ErrorClassification.WORKER_LOST
    assert result.usage_metadata["attempts"] == 3
    _check_ended(lifecycle, handle, result, _used("doomed", 0))


def test_an_unknown_price_is_an_unknown_cost_and_so_is_an_object(rig: RunRig) -> None:
    rig.keep_workers(2, concurrency=4)
    _plays(rig, "unpriced", "what does it cost", Call("look", {"at": "it"}))
    _plays(rig, "boss", "ask the quiet one", Call("run_agent", {"name": "quiet", "task": "little"}))
    lifecycle = rig.lifecycle("unknown")
    unpriced = lifecycle.launch(agent="unpriced", goal="what does it cost")
    boss = lifecycle.launch(agent="boss", goal="ask the quiet one")

    used = rig.result(lifecycle, unpriced).usage_metadata
    assert (used["model_calls"], used["cost_usd"], used["tree"]["cost_usd"]) == (2, None, None)
    result = rig.result(lifecycle, boss)
    own = _used("boss", 0) + _used("boss", 1)
    assert result.usage_metadata["cost_usd"] == own.cost_usd
    assert result.usage_metadata["tree"]["cost_usd"] is None
    assert result.usage_metadata["tree"]["input_tokens"] == own.input_tokens
    quiet = next(node for node in lifecycle.tree(boss) if node.agent == "quiet")
    assert quiet.usage is None
