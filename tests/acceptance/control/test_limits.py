"""Limits that a model, a tool's code or a crash runs into: nothing is let past, and each refusal says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle, SubagentResult
from retinue.contract import (
    ErrorClassification,
    ErrorCode,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.testing import Call, Turn
from retinue.testing.scripts import Script

TOO_MANY_CALLS = "[REFUSED] max_tool_calls"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    with run_rig(tmp_path_factory.mktemp("limits"), agents="control.limit_agents") as rig:
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client, beside two workers."""
    rig.keep_workers(2, concurrency=4)
    return rig.lifecycle()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def results(rig: RunRig, agent: str, word: str) -> list[str]:
    """The results of all calls that the agent's model made, as its last request shows them."""
    found = [recorded.request for recorded in rig.model.requests(agent)]
    last = [request for request in found if request and word in request.messages[0].text][-1]
    return [result.text for result in last.results]


def ran(rig: RunRig, handle: SubagentHandle, line: str) -> int:
    """How often a tool of the run wrote a line."""
    return sum(entry.startswith(handle.subagent_id) and entry.endswith(line) for entry in rig.ledger())


def child_of(rig: RunRig, handle: SubagentHandle) -> SubagentHandle:
    """The first run that a run's tool launched."""
    return SubagentHandle.from_dict(json.loads(rig.wait_for_trace(f"{handle.subagent_id}.child")))


def sends(*requests: dict[str, Any], wait: bool = True) -> dict[str, Any]:
    return {"requests": list(requests), "wait": wait}


# Tool calls.


@pytest.mark.parametrize(("agent", "limits"), [("frugal", None), ("clerk", {"max_tool_calls": 3})])
def test_a_model_that_calls_on_and_on_gets_a_reason_for_every_call_too_many(
    rig: RunRig, lifecycle: SubagentLifecycle, agent: str, limits: Any
) -> None:
    word, flood = f"flood-{agent}", Turn(calls=(Call("count"),) * 40)
    script(rig, agent, word).then(Turn(calls=(Call("count"), Call("nonsense")))).then(flood).then(flood).then(
        "enough"
    )
    handle = lifecycle.launch(agent=agent, goal=word, limits=limits)
    result = rig.result(lifecycle, handle)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "enough")
    told = results(rig, agent, word)
    assert told[0] == told[2] == "count"
    assert told[1].startswith("[ERROR]"), "a call of what there is not is a call"
    assert len(told) == 82
    assert all(text.startswith(TOO_MANY_CALLS) and "limit: 3" in text for text in told[3:])
    assert ran(rig, handle, "count") == 2
    assert lifecycle.status(handle).limits["max_tool_calls"] == 3


def test_the_limit_of_a_launch_only_tightens_the_agents_own(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    for most, effective in ((1, 1), (99, 3)):
        word = f"tighten-{most}-"
        script(rig, "frugal", word).then(Turn(calls=(Call("count"),) * 5)).then("done")
        handle = lifecycle.launch(agent="frugal", goal=word, limits={"max_tool_calls": most})
        rig.result(lifecycle, handle)
        assert lifecycle.status(handle).limits["max_tool_calls"] == effective
        assert ran(rig, handle, "count") == effective


def test_a_delegation_beyond_the_limit_of_calls_launches_nothing(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "boss", "last-call").then(
        Turn(calls=(Call("count"), Call("run_agent", {"name": "clerk", "task": "x"})))
    ).then("ok")
    handle = lifecycle.launch(agent="boss", goal="last-call", limits={"max_tool_calls": 1})
    rig.result(lifecycle, handle)
    assert results(rig, "boss", "last-call")[1].startswith(TOO_MANY_CALLS)
    assert len(lifecycle.tree(handle)) == 1


def test_a_crash_in_the_last_call_lets_no_call_past_the_limit(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    calls = (Call("count"), Call("dawdle", {"name": "crash"}), Call("count"), Call("count"))
    script(rig, "clerk", "crashing").then(Turn(calls=calls)).then(Turn(calls=calls)).then("done")
    handle = lifecycle.launch(agent="clerk", goal="crashing", limits={"max_tool_calls": 2})
    rig.wait_for_trace("crash.started")
    rig.wait_until(lambda: ran(rig, handle, "count") == 1, "the first call is done")
    for worker in rig.workers:
        if worker.running:
            worker.kill()
    rig.keep_workers(2, concurrency=4)
    result = rig.result(lifecycle, handle)

    assert result.summary == "done"
    told = results(rig, "clerk", "crashing")
    assert told[:2] in (["count", "dawdle"], ["[OUTCOME UNKNOWN]", "dawdle"])
    assert len(told) == 8
    assert all(text.startswith(TOO_MANY_CALLS) for text in told[2:])
    assert (ran(rig, handle, "count"), ran(rig, handle, "dawdle")) == (1, 1)


def test_a_model_that_never_ends_is_cut_at_its_iterations(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "frugal", "endless").call("count").say("still at it").repeat_last()
    handle = lifecycle.launch(agent="frugal", goal="endless")
    result = rig.result(lifecycle, handle)

    assert result.error_classification == ErrorClassification.MAX_ITERATIONS
    assert (result.terminal_state, result.summary) == (SubagentState.INTERRUPTED, "still at it")
    status = lifecycle.status(handle)
    assert (status.iteration, status.limits["max_iterations"]) == (6, 6)


# Children.


def test_a_cap_on_a_childs_subtree_holds_for_its_models_children_and_for_its_tools(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    capped = {"agent": "boss", "goal": "narrow-boss", "limits": {"max_tree": 2}}
    script(rig, "chief", "narrow-chief").call("send_out", sends(capped)).then("${results}")
    boss = script(rig, "boss", "narrow-boss")
    for number in range(3):
        boss.call("run_agent", {"name": "clerk", "task": f"narrow {number}"})
    boss.then(Turn(calls=(Call("send_out", sends({"agent": "clerk", "goal": "narrow 4"})),))).then("well")
    script(rig, "clerk", "narrow").say("done")
    handle = lifecycle.launch(agent="chief", goal="narrow-chief")
    rig.result(lifecycle, handle)

    told = results(rig, "boss", "narrow-boss")
    assert told[:3].count("done") == 2
    [refused] = [text for text in told[:3] if text != "done"]
    assert refused.startswith("[REFUSED] max_tree_children")
    assert told[3].startswith(f"{ErrorCode.CAPACITY_REACHED}: max_tree_children")
    for text in (refused, told[3]):
        assert "limit: 2" in text
        assert "limits.max_tree" in text
    assert len(lifecycle.tree(handle)) == 4


def test_a_tools_launches_are_all_refused_where_one_too_many_would_be_live(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    clerks = [{"agent": "clerk", "goal": f"many {number}"} for number in range(3)]
    boss = script(rig, "boss", "too-many").call("send_out", sends(*clerks))
    boss.then(Turn(calls=(Call("send_out", sends(*clerks[:2])),))).then("well")
    script(rig, "clerk", "many").say("done")
    handle = lifecycle.launch(agent="boss", goal="too-many", limits={"max_children": 2})
    rig.result(lifecycle, handle)

    refused, done = results(rig, "boss", "too-many")
    assert refused.startswith(f"{ErrorCode.CAPACITY_REACHED}: max_live_children")
    assert done == "done + done", "nothing of the refused launch is left"
    assert len(lifecycle.tree(handle)) == 3


def test_roots_of_one_launch_have_caps_of_their_own(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    for number, most in enumerate((0, 1)):
        boss = script(rig, "boss", f"root-{number}").call("run_agent", {"name": "clerk", "task": "rooted"})
        boss.then(str(most) + ": ${results}")
    script(rig, "clerk", "rooted").say("done")
    requests = [{"agent": "boss", "goal": f"root-{n}", "limits": {"max_tree": n}} for n in range(2)]
    handles = lifecycle.launch_many(requests)
    summaries = [str(rig.result(lifecycle, handle).summary) for handle in handles]

    assert summaries[0].startswith("0: [REFUSED] max_tree_children")
    assert summaries[1] == "1: done"


# What a status says of them.


def test_a_status_shows_the_limits_in_force_before_and_after_inheritance(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    asked = {"max_tree": 7, "max_depth": 2, "max_children": 5, "max_tool_calls": 9}
    child = {"agent": "frugal", "goal": "shown", "limits": {"max_tree": 99, "max_depth": 9}}
    script(rig, "chief", "showing").call("send_out", sends(child)).then("done")
    script(rig, "frugal", "shown").say("done")
    handle = lifecycle.launch(agent="chief", goal="showing", limits=asked, timeout_seconds=300)
    before = lifecycle.status(handle).limits
    rig.result(lifecycle, handle)
    own, inherited = lifecycle.status(handle).limits, lifecycle.status(child_of(rig, handle)).limits

    deadline = {"deadline_at", "seconds_left"}
    assert set(own) == {
        "max_iterations", "max_tool_calls", "max_depth", "max_live_children", "max_tree_children", *deadline,
    }  # fmt: skip
    counts = {name: value for name, value in own.items() if name not in deadline}
    assert counts == {
        "max_iterations": 50, "max_tool_calls": 9, "max_depth": 2, "max_live_children": 5,
        "max_tree_children": 7,
    }  # fmt: skip
    assert before["deadline_at"] == own["deadline_at"] == pytest.approx(handle.created_at + 300, abs=0.01)
    assert 290 < own["seconds_left"] <= before["seconds_left"] <= 300
    assert inherited["max_iterations"] == 6
    assert (inherited["max_tool_calls"], inherited["max_depth"], inherited["max_tree_children"]) == (3, 2, 7)
    assert (inherited["max_live_children"], inherited["deadline_at"]) == (20, own["deadline_at"])


# Work that a run above is at.


def heard(rig: RunRig, lifecycle: SubagentLifecycle, agent: str, goal: str, **request: Any) -> SubagentResult:
    return rig.result(lifecycle, lifecycle.launch(agent=agent, goal=goal, **request))


def test_a_tool_that_passes_its_runs_own_work_down_is_refused_with_a_code(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    same = {"agent": "boss", "goal": "  MIRROR the\ttext "}
    script(rig, "boss", "mirror the text").call("send_out", sends(same)).then("${results}")
    summary = str(heard(rig, lifecycle, "boss", "mirror the text").summary)
    assert summary.startswith(f"{ErrorCode.DUPLICATE_WORK}: goal: the run sa-")
    assert "To mend: do the work in this run" in summary


def test_a_model_that_passes_the_work_of_a_run_above_down_is_refused_with_a_reason(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    between = {"agent": "boss", "goal": "between", "role": "orchestrator"}
    script(rig, "chief", "circle").call("send_out", sends(between)).then("${results}")
    boss = script(rig, "boss", "between").call("run_agent", {"name": "chief", "task": "Circle"})
    boss.call("run_agent", {"name": "clerk", "task": "circle"}).then("${results}")
    script(rig, "clerk", "circle").say("a clerk may")
    handle = lifecycle.launch(agent="chief", goal="circle")
    summary = str(rig.result(lifecycle, handle).summary)

    assert summary.startswith("[REFUSED] goal: the run " + handle.subagent_id)
    assert summary.endswith("a clerk may")
    assert len(lifecycle.tree(handle)) == 3


def test_a_tool_may_work_a_text_off_in_halves(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    half = {"agent": "boss", "goal": "halve", "context": "the first half"}

    def says(request: Any) -> Turn | str:
        if "half" in request.messages[0].text:
            return "halved"
        return (
            Turn(calls=(Call("send_out", sends(half)),)) if not request.results else request.results[0].text
        )

    script(rig, "boss", "halve").reply(says)
    assert heard(rig, lifecycle, "boss", "halve", context="the whole").summary == "halved"


def test_a_client_may_ask_for_the_same_as_often_as_it_likes(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "clerk", "again").say("done")
    handles = lifecycle.launch_many([{"agent": "clerk", "goal": "again"}] * 3)
    assert [rig.result(lifecycle, handle).summary for handle in handles] == ["done"] * 3
    with pytest.raises(SubagentLifecycleError, match="agent"):
        lifecycle.launch(agent="nobody", goal="again")
