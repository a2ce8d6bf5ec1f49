"""Budgets on two worker processes: a concurrent tree keeps to its own, pauses, is raised, or stops."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal

import pytest
from tests.acceptance.run_rig import RunRig, of_kind, run_rig

from retinue.cli.exits import ExitCode
from retinue.client import Budget, SubagentLifecycle
from retinue.contract import (
    BudgetCap,
    ErrorClassification,
    EventType,
    Phase,
    SubagentHandle,
    SubagentState,
    SubagentStatus,
)
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Call, Turn, TurnUsage
from retinue.testing.workers import worker_environment

HANDS = 10
LOOKS = 4
PRICES = {"scripted": {"input": 0, "output": 10}}
CALL_USD = 0.05
"""What each answer costs: 5,000 tokens. 0.06 are reserved, for its agents ask for at most 6,000."""
USED = TurnUsage(input_tokens=1_000, output_tokens=5_000)
RESERVED_USD = 0.06


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    directory = tmp_path_factory.mktemp("budgets")
    with run_rig(directory, agents="control.budget_agents", prices=PRICES, latency_s=0.02) as rig:
        rig.model.script("boss").reply(_boss)
        rig.model.script("hand").reply(_hand)
        rig.model.script("loner").reply(_loner)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig, request: pytest.FixtureRequest) -> SubagentLifecycle:
    """Of a session of the test's own, with two workers at work."""
    rig.keep_workers(2, concurrency=6)
    return rig.lifecycle(request.node.name.replace("[", "-").strip("]")[:64])


def _boss(asked: ScriptedRequest) -> Turn:
    goal = asked.messages[0].text
    calls = [Call("run_agent", {"name": "hand", "task": f"{goal} {number}"}) for number in range(HANDS)]
    return Turn(calls=tuple(calls), usage=USED) if asked.turn == 0 else Turn(text="all done", usage=USED)


def _hand(asked: ScriptedRequest) -> Turn:
    goal = asked.messages[0].text
    if asked.turn == LOOKS - 1:
        return Turn(text=f"seen {goal}", usage=USED)
    gate = "held" if goal.startswith("held") and asked.turn == 1 else None
    look = Call("look", {"at": f"{goal}/{asked.turn}"})
    return Turn(text=f"look {asked.turn}", calls=(look,), usage=USED, gate=gate)


def _loner(asked: ScriptedRequest) -> Turn:
    if asked.turn:
        return Turn(text="${results}", usage=USED)
    return Turn(
        calls=tuple(Call("look", {"at": f"{asked.messages[0].text}/{n}"}) for n in range(3)), usage=USED
    )


def usd_of(status: SubagentStatus) -> BudgetCap:
    assert status.budget is not None
    return status.budget.caps["usd"]


def cli(rig: RunRig, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `retinue budget` as another shell would."""
    return subprocess.run(
        [sys.executable, "-m", "retinue.cli", "budget", *arguments],
        env=worker_environment({"store_url": rig.server.url}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def settle(rig: RunRig, lifecycle: SubagentLifecycle, handle: SubagentHandle) -> SubagentStatus:
    """How the root stands once no run of the tree is queued or at work."""
    still = (Phase.PAUSED_BUDGET, Phase.WAITING_CHILDREN, Phase.NONE)
    rig.wait_until(
        lambda: all(node.phase in still for node in lifecycle.tree(handle)),
        "the whole tree waits or has ended",
    )
    return lifecycle.status(handle)


def test_a_concurrent_tree_settles_within_its_budget_pauses_and_finishes_after_a_raise(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    before = rig.model.count()
    handle = lifecycle.launch(agent="boss", goal="plain", budget={"usd": Decimal("1.00")})
    asked = lifecycle.wait(handle, timeout_seconds=30, until="asked")
    assert not asked.completed
    assert not asked.timed_out, "whoever waits until somebody can act is told"

    status = settle(rig, lifecycle, handle)
    usd = usd_of(status)
    requests = rig.model.count() - before
    assert usd.held == 0
    assert usd.used == pytest.approx(CALL_USD * requests)
    assert 1.0 - RESERVED_USD < usd.used <= 1.0, "as far as it goes, and no further"
    events = list(lifecycle.events(handle))
    assert [event.data["name"] for event in of_kind(events, EventType.BUDGET_WARNING)] == ["usd"]
    paused = of_kind(events, EventType.BUDGET_PAUSED)
    assert {event.data["limit"] for event in paused} == {1.0}
    nodes = {node.run_id: node for node in lifecycle.tree(handle)}
    assert len(paused) == len([node for node in nodes.values() if node.phase is Phase.PAUSED_BUDGET])

    done = cli(rig, "raise", handle.subagent_id, "--usd", "5.00")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:2] == ["usd", "5"]
    result = rig.result(lifecycle, handle)
    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "all done")
    usd = usd_of(lifecycle.status(handle))
    assert (usd.used, usd.held) == (pytest.approx(CALL_USD * (2 + HANDS * LOOKS)), 0)


def test_a_budget_that_stops_ends_the_tree_with_what_it_has_said(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    handle = lifecycle.launch(agent="boss", goal="stop", budget=Budget(usd=1.0, on_spent="stop"))
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.INTERRUPTED
    assert result.error_classification is ErrorClassification.BUDGET_EXCEEDED
    assert "usd" in (result.error_message or "")
    usd = usd_of(lifecycle.status(handle))
    assert (usd.held, usd.used <= 1.0) == (0, True)
    events = list(lifecycle.events(handle))
    ends = [event.data["classification"] for event in of_kind(events, EventType.RUN_FINISHED)]
    assert set(ends) <= {None, "BUDGET_EXCEEDED"}
    assert not of_kind(events, EventType.BUDGET_PAUSED)


def test_a_worker_that_is_killed_leaves_no_reservation(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="boss", goal="held", budget={"usd": 10})
    rig.model.wait_for(lambda model: model.in_flight("hand") == HANDS, timeout_s=30)
    assert usd_of(lifecycle.status(handle)).held == pytest.approx(HANDS * RESERVED_USD)
    next(worker for worker in rig.workers if worker.running).kill()
    # Each has six slots, so it had four of the ten at least.
    rig.wait_for_event(lifecycle, handle, EventType.ATTEMPT_LOST, count=HANDS - 6)
    rig.model.release("held")
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.SUCCEEDED
    usd = usd_of(lifecycle.status(handle))
    assert usd.held == 0
    assert usd.used == pytest.approx(CALL_USD * (2 + HANDS * LOOKS)), "what nobody recorded is not counted"


def test_paused_runs_end_by_a_cancel(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="boss", goal="cancelled", budget={"usd": "0.30"})
    settle(rig, lifecycle, handle)
    rig.wait_for_event(lifecycle, handle, EventType.BUDGET_PAUSED)
    assert lifecycle.cancel(handle).accepted
    assert rig.result(lifecycle, handle).terminal_state is SubagentState.CANCELLED
    rig.wait_until(
        lambda: all(node.state is SubagentState.CANCELLED for node in lifecycle.tree(handle)),
        "all have ended",
    )
    refused = lifecycle.raise_budget(handle, usd=5)
    assert (refused.accepted, refused.already_terminal) == (False, True)


def test_calls_beyond_the_budget_are_refused_one_by_one(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="loner", goal="two of three", budget={"tool_calls": 2})
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.SUCCEEDED
    ran = {
        place for place in range(3) if any(line.startswith(f"two of three/{place} ") for line in rig.ledger())
    }
    assert ran == {0, 1}
    assert "[REFUSED] tool_calls" in (result.summary or "")


def test_a_model_without_a_price_is_refused_under_a_budget_in_usd(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    before = rig.model.count()
    handle = lifecycle.launch(agent="unpriced", goal="at any price", budget={"usd": 1})
    result = rig.result(lifecycle, handle)
    assert result.terminal_state is SubagentState.FAILED
    assert 'prices."nobody-knows"' in (result.error_message or "")
    assert rig.model.count() == before


def test_one_run_pauses_and_goes_on_after_a_raise(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="loner", goal="once", budget={"usd": "0.07", "tokens": 1_000_000})
    rig.wait_for_event(lifecycle, handle, EventType.BUDGET_PAUSED)
    status = lifecycle.status(handle)
    assert (status.state, status.phase) == (SubagentState.RUNNING, Phase.PAUSED_BUDGET)
    raised = lifecycle.raise_budget(handle, usd="1.00")
    assert (raised.accepted, raised.woken) == (True, 1)
    rig.succeeded(lifecycle, handle)
    shown = json.loads(cli(rig, "show", handle.subagent_id, "--json").stdout)["budget"]
    assert shown["usd"] == {"limit": 1.0, "used": 0.1, "held": 0.0, "left": 0.9}


def test_the_command_line_tells_what_it_cannot_raise(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    handle = lifecycle.launch(agent="loner", goal="no budget")
    rig.result(lifecycle, handle)
    for arguments, code in (
        (("show", handle.subagent_id), ExitCode.PROBLEM),
        (("raise", handle.subagent_id, "--usd", "5"), ExitCode.PROBLEM),
        (("raise", handle.subagent_id), ExitCode.PROBLEM),
        (("show", "sa-p00-" + "a" * 26), ExitCode.UNKNOWN_HANDLE),
    ):
        done = cli(rig, *arguments)
        assert done.returncode == code, done.stderr
        assert done.stderr
        assert not done.stdout
