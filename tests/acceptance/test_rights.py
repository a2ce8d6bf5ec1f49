"""What a launch grants: it only becomes narrower down the tree, whatever a model asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import SubagentLifecycle
from retinue.contract import ErrorCode, Role, SubagentLifecycleError
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripts import Script

INVENTED = ("look", "scribble", "wipe")
DELEGATION = {"run_agent", "list_agents"}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """A worker whose settings block one tool for everybody."""
    directory: Path = tmp_path_factory.mktemp("rights")
    with run_rig(directory, agents="rights_agents", delegation={"blocked_tools": ["wipe"]}) as rig:
        rig.worker(concurrency=8)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig) -> SubagentLifecycle:
    """A client."""
    return rig.lifecycle()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs of the tree whose root has this goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def keeper_with_scribe(rig: RunRig, word: str) -> None:
    """The keeper delegates; the scribe's model calls every tool there is, offered or not."""
    script(rig, "keeper", word).call("run_agent", {"name": "scribe", "task": f"child of {word}"}).then(
        "heard: ${results}"
    )
    scribe = script(rig, "scribe", f"child of {word}")
    for tool in INVENTED:
        scribe.call(tool, {})
    scribe.then("${results}")


def requests(rig: RunRig, agent: str, word: str) -> list[ScriptedRequest]:
    """What the agent's model was asked."""
    found = [recorded.request for recorded in rig.model.requests(agent)]
    return [request for request in found if request and word in request.messages[0].text]


def wrote(rig: RunRig, run_ids: set[str]) -> list[str]:
    """The tools that wrote in these runs."""
    return [line.split()[2] for line in rig.ledger() if line.split(":")[0] in run_ids]


def runs(lifecycle: SubagentLifecycle, handle: object) -> set[str]:
    """The ids of a tree's runs."""
    return {node.run_id for node in lifecycle.tree(handle)}


def test_without_a_grant_a_child_has_its_own_tools_except_what_the_settings_block(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    keeper_with_scribe(rig, "open")
    handle = lifecycle.launch(agent="keeper", goal="open")
    result = rig.result(lifecycle, handle)

    assert set(requests(rig, "keeper", "open")[0].tools) == {"look", "scribble", "send_out", *DELEGATION}
    assert set(requests(rig, "scribe", "open")[0].tools) == {"look", "scribble", "send_out"}
    assert "seen; written; [ERROR]" in str(result.summary)
    assert wrote(rig, runs(lifecycle, handle)) == ["scribble"]


def test_a_grant_at_the_root_narrows_what_children_are_offered_and_what_they_may_call(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    keeper_with_scribe(rig, "narrow")
    handle = lifecycle.launch(agent="keeper", goal="narrow", allowed_toolsets=("reading",))
    result = rig.result(lifecycle, handle)

    assert set(requests(rig, "keeper", "narrow")[0].tools) == {"look", *DELEGATION}
    assert requests(rig, "scribe", "narrow")[0].tools == ("look",)
    assert str(result.summary).startswith("heard: seen; [ERROR]")
    assert str(result.summary).count("[ERROR]") == 2
    assert wrote(rig, runs(lifecycle, handle)) == []


def test_blocked_tools_are_blocked_for_children_too(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    keeper_with_scribe(rig, "blocked")
    handle = lifecycle.launch(agent="keeper", goal="blocked", blocked_tools=("scribble",))
    rig.result(lifecycle, handle)

    assert set(requests(rig, "scribe", "blocked")[0].tools) == {"look", "send_out"}
    assert wrote(rig, runs(lifecycle, handle)) == []


def test_blocking_the_delegation_tool_ends_delegation(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    keeper_with_scribe(rig, "alone")
    handle = lifecycle.launch(agent="keeper", goal="alone", blocked_tools=("run_agent",))
    result = rig.result(lifecycle, handle)

    assert "run_agent" not in requests(rig, "keeper", "alone")[0].tools
    assert "[ERROR]" in str(result.summary)
    assert len(runs(lifecycle, handle)) == 1


def test_an_empty_grant_means_no_tool_at_all(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    keeper = script(rig, "keeper", "empty").call("run_agent", {"name": "scribe", "task": "x"})
    for tool in INVENTED:
        keeper.call(tool, {})
    keeper.then("${results}")
    handle = lifecycle.launch(agent="keeper", goal="empty", allowed_toolsets=())
    result = rig.result(lifecycle, handle)

    first, _ = requests(rig, "keeper", "empty")
    assert first.tools == ()
    assert "tools" not in first.body
    assert str(result.summary).count("[ERROR]") == 4
    assert len(runs(lifecycle, handle)) == 1
    assert wrote(rig, runs(lifecycle, handle)) == []


def test_a_tool_may_pass_on_a_part_of_its_runs_grant_and_no_more(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    keeper = script(rig, "keeper", "passing")
    for toolsets in (["writing"], ["reading"], None):
        keeper.call("send_out", {"agent": "scribe", "toolsets": toolsets})
    keeper.then("${results}")
    script(rig, "scribe", "sent out").call("scribble", {}).call("look", {}).then("${results}")
    handle = lifecycle.launch(agent="keeper", goal="passing", allowed_toolsets=("reading", "family"))
    result = rig.result(lifecycle, handle)

    broader, narrower, _same = str(result.summary).split("; ", 1)[0], *str(result.summary).split("leaf: ")[1:]
    assert broader.startswith(ErrorCode.TOOLSET_BROADENING)
    assert "writing" in broader
    assert narrower.startswith("[ERROR]")
    offered = [set(request.tools) for request in requests(rig, "scribe", "sent out")]
    assert {"look"} in offered
    assert all("scribble" not in tools for tools in offered)
    assert wrote(rig, runs(lifecycle, handle)) == []


def test_a_leaf_may_delegate_to_its_own_sub_agents_only(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "keeper", "leafy").call("run_agent", {"name": "stranger", "task": "leafy"}).then("${results}")
    handle = lifecycle.launch(agent="keeper", goal="leafy")
    result = rig.result(lifecycle, handle)

    assert handle.role is Role.LEAF
    assert agents_offered(requests(rig, "keeper", "leafy")[0]) == ["scribe"]
    assert "stranger" in str(result.summary)
    assert len(runs(lifecycle, handle)) == 1


def test_an_orchestrator_may_delegate_to_any_agent_and_its_children_are_leaves(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "keeper", "conduct").call("run_agent", {"name": "stranger", "task": "conducted"}).then(
        "${results}"
    )
    script(rig, "stranger", "conducted").say("hello")
    handle = lifecycle.launch(agent="keeper", goal="conduct", role="orchestrator")
    result = rig.result(lifecycle, handle)

    assert handle.role is Role.ORCHESTRATOR
    assert {"scribe", "stranger"} <= set(agents_offered(requests(rig, "keeper", "conduct")[0]))
    assert result.summary == "hello"
    assert requests(rig, "stranger", "conducted")[0].tools == ("look",)


def test_at_the_deepest_level_nobody_delegates(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    keeper = script(rig, "keeper", "shallow")
    keeper.call("run_agent", {"name": "scribe", "task": "x"})
    keeper.call("send_out", {"agent": "scribe", "toolsets": None}).then("${results}")
    handle = lifecycle.launch(agent="keeper", goal="shallow", role="orchestrator", limits={"max_depth": 0})
    result = rig.result(lifecycle, handle)

    assert handle.role is Role.LEAF
    assert DELEGATION.isdisjoint(requests(rig, "keeper", "shallow")[0].tools)
    assert str(result.summary).startswith("[REFUSED] max_depth")
    assert ErrorCode.DEPTH_EXCEEDED in str(result.summary)
    assert len(runs(lifecycle, handle)) == 1


def test_the_depth_limit_of_a_root_holds_for_its_children(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    script(rig, "keeper", "two-levels").call("run_agent", {"name": "scribe", "task": "level-two"}).then(
        "${results}"
    )
    script(rig, "scribe", "level-two").call("send_out", {"agent": "stranger", "toolsets": None}).then(
        "${results}"
    )
    handle = lifecycle.launch(agent="keeper", goal="two-levels", limits={"max_depth": 1})
    result = rig.result(lifecycle, handle)

    assert ErrorCode.DEPTH_EXCEEDED in str(result.summary)
    assert len(runs(lifecycle, handle)) == 2


def test_children_beyond_the_cap_are_refused_with_the_reason(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    keeper = script(rig, "keeper", "crowd")
    for number in range(3):
        keeper.call("run_agent", {"name": "scribe", "task": f"crowd {number}"})
    keeper.then("${results}")
    script(rig, "scribe", "crowd").say("here").hold("crowd")
    handle = lifecycle.launch(agent="keeper", goal="crowd", limits={"max_children": 2})
    rig.model.wait_for(lambda model: model.in_flight("scribe") == 2, timeout_s=30)
    rig.model.release("crowd")
    result = rig.result(lifecycle, handle)

    answers = str(result.summary).split("; ")
    assert answers.count("here") == 2
    assert "[REFUSED] max_live_children" in str(result.summary)
    assert len(runs(lifecycle, handle)) == 3


def test_a_launch_that_broadens_or_names_what_is_not_there_writes_nothing(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    before = rig.store.dbsize()
    for wrong, code in (
        ({"agent": "keepr"}, ErrorCode.UNKNOWN_AGENT),
        ({"agent": "keeper", "allowed_toolsets": ("writing", "flying")}, ErrorCode.UNKNOWN_TOOLSET),
        ({"agent": "keeper", "provider": "nobody"}, ErrorCode.UNKNOWN_PROVIDER),
    ):
        with pytest.raises(SubagentLifecycleError) as refused:
            lifecycle.launch(goal="never", **wrong)
        assert refused.value.code is code
    assert rig.store.dbsize() == before


def agents_offered(request: ScriptedRequest) -> list[str]:
    """The names that the delegation tool takes."""
    [tool] = [t["function"] for t in request.body["tools"] if t["function"]["name"] == "run_agent"]
    return tool["parameters"]["properties"]["name"]["enum"]
