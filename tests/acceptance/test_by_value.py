"""Agents by value: documents that come with a launch, run by workers that know no agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyagentspec.agent import Agent
from pyagentspec.component import Component
from pyagentspec.llms import OpenAiCompatibleConfig, OpenAiConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import FloatProperty, StringProperty
from pyagentspec.serialization import AgentSpecSerializer
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import ServerTool
from tests.acceptance.run_rig import RunRig, run_rig

from retinue.client import (
    ErrorClassification,
    ErrorCode,
    SubagentLifecycle,
    SubagentLifecycleError,
    SubagentState,
)
from retinue.contract import EventType
from retinue.store import keys
from retinue.testing import Call, Match
from retinue.testing.scripts import Script

LLM = OpenAiConfig(name="llm", model_id="m")
PRICE = ServerTool(
    name="look_up_price",
    description="The price of an article in euros.",
    inputs=[StringProperty(title="article")],
    outputs=[FloatProperty(title="price")],
)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers with one slot each, whose module declares tools only."""
    here = {"private_hosts": ["127.0.0.1"]}
    with run_rig(tmp_path_factory.mktemp("value"), agents="value_tools", remote_tools=here) as rig:
        rig.worker(concurrency=1)
        rig.worker(concurrency=1)
        yield rig


@pytest.fixture
def lifecycle(rig: RunRig, request: pytest.FixtureRequest) -> SubagentLifecycle:
    return rig.lifecycle(request.node.name[:100])


def agent(name: str, *tools: ServerTool, prompt: str = "", **options: Any) -> Agent:
    system = f"Role: {name}. {prompt}"
    return Agent(
        name=name,
        description=f"Is {name}.",
        llm_config=LLM,
        system_prompt=system,
        tools=list(tools),
        **options,
    )


def script(rig: RunRig, name: str) -> Script:
    return rig.model.script_where(name, Match(system_contains=f"Role: {name}."))


def send(recipient: str, message: str) -> Call:
    return Call("send_message", {"recipient": recipient, "message": message})


def as_dict(component: Component) -> dict[str, Any]:
    return AgentSpecSerializer().to_dict(component)  # pyright: ignore[reportReturnType]


def refusal(lifecycle: SubagentLifecycle, **fields: Any) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        lifecycle.launch(goal="go", **fields)
    return caught.value


def test_a_group_built_in_python_runs_on_workers_that_never_saw_it(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "head").call("send_message", {"recipient": "pricer", "message": "lamp?"}).then(
        "It costs ${results}."
    )
    script(rig, "pricer").call("look_up_price", {"article": "lamp"}).then("${results} euros")
    group = ManagerWorkers(
        name="shop", group_manager=agent("head", prompt="For {{customer}}."), workers=[agent("pricer", PRICE)]
    )

    handle = lifecycle.launch(agent=group, goal="What is a lamp?", inputs={"customer": "Ada"})
    result = rig.result(lifecycle, handle)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "It costs 19.5 euros.")
    asked = rig.model.requests("head")[0].request
    assert asked is not None
    assert "For Ada." in asked.system
    nodes = lifecycle.tree(handle)
    assert [node.agent for node in nodes] == ["shop", "pricer"]
    # The document is kept once: with the launch that brought it along.
    kept = [json.loads(rig.store.get(keys.record("_", node.run_id) + ":req") or "{}") for node in nodes]  # pyright: ignore[reportArgumentType]
    assert "agent_spec" in kept[0]["request"]
    assert "agent_spec" not in kept[1]["request"]
    assert kept[1]["document"] == handle.subagent_id


def test_a_swarm_hands_its_conversation_over_and_the_next_turn_stays_there(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    first, second = agent("greeter"), agent("expert")
    swarm = Swarm(
        name="desk",
        first_agent=first,
        relationships=[(first, second), (second, first)],
        handoff=HandoffMode.OPTIONAL,
    )
    script(rig, "greeter").call("handoff_conversation", {"recipient": "expert"})
    script(rig, "expert").then("I know.").then("I still do.").repeat_last()

    handle = lifecycle.launch(agent=swarm, goal="Who knows?")
    result = rig.result(lifecycle, handle)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert result.summary in ("I know.", "I still do.")
    events = [event.type for event in lifecycle.events(handle)]
    assert EventType.RUN_HANDED_OFF in events
    again = rig.result(lifecycle, lifecycle.continue_run(handle, "And now?"))
    assert again.terminal_state is SubagentState.SUCCEEDED
    assert again.summary == "I still do."


@pytest.mark.parametrize("form", ["mapping", "json", "yaml", "path"])
def test_a_document_is_taken_in_every_form(
    rig: RunRig, lifecycle: SubagentLifecycle, tmp_path: Path, form: str
) -> None:
    name = f"writer-{form}"
    script(rig, name).say("Written.")
    document, serializer = agent(name), AgentSpecSerializer()
    path = tmp_path / "spec.yaml"
    path.write_text(str(serializer.to_yaml(document)))
    given: Any = {
        "mapping": as_dict(document),
        "json": serializer.to_json(document),
        "yaml": serializer.to_yaml(document),
        "path": path,
    }[form]

    handles = [
        lifecycle.launch(agent=given, goal="Write."),
        lifecycle.launch(agent_spec=given, goal="Write."),
    ]

    assert [rig.result(lifecycle, handle).summary for handle in handles] == ["Written.", "Written."]
    assert lifecycle.status(handles[0]).agent == name


def test_another_agent_of_the_document_can_be_the_one_that_starts(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "second-in-line").say("Me.")
    group = ManagerWorkers(name="line", group_manager=agent("chief"), workers=[agent("second-in-line")])

    result = rig.result(
        lifecycle, lifecycle.launch(agent="second-in-line", agent_spec=as_dict(group), goal="Who?")
    )
    unknown = rig.result(lifecycle, lifecycle.launch(agent="nobody", agent_spec=as_dict(group), goal="Who?"))

    assert result.summary == "Me."
    assert unknown.error_classification is ErrorClassification.AGENT_ERROR
    assert unknown.error_message is not None
    assert "no agent 'nobody'" in unknown.error_message
    assert "second-in-line" in unknown.error_message


def test_tools_that_no_worker_has_are_all_listed_at_the_launch(lifecycle: SubagentLifecycle) -> None:
    other = ServerTool(name="Send a letter", description="d", inputs=[])
    third = ServerTool(name="burn it", description="d", inputs=[])
    group = ManagerWorkers(
        name="post", group_manager=agent("a", PRICE, other), workers=[agent("b", third, PRICE)]
    )

    error = refusal(lifecycle, agent=group)

    assert error.code is ErrorCode.UNKNOWN_TOOLSET
    assert "'Send a letter'" in error.message
    assert "'burn it'" in error.message
    assert "look_up_price" not in error.message


def test_a_tool_that_the_claiming_worker_lacks_fails_the_run_and_is_named(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="value_tools", lease_seconds=1.0) as rig:
        # Its tools are known for a month, though the only worker that lives now has none of them.
        knowing = rig.worker()
        knowing.close()
        rig.worker(settings={"agents": "echo_agents"})
        lifecycle = rig.lifecycle()
        two = ManagerWorkers(
            name="two",
            group_manager=agent("m", PRICE),
            workers=[
                agent(
                    "w", ServerTool(name="note_down", description="d", inputs=[StringProperty(title="line")])
                )
            ],
        )

        result = rig.result(lifecycle, lifecycle.launch(agent=two, goal="go"))

    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.AGENT_ERROR
    assert result.error_message is not None
    assert "look_up_price" in result.error_message
    assert "note_down" in result.error_message


def test_its_tools_stay_within_the_launchs_grant(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    note = ServerTool(name="note_down", description="d", inputs=[StringProperty(title="line")])
    script(rig, "clerk").call("note_down", {"line": "x"}).then("${results}")

    result = lifecycle.run(
        agent=agent("clerk", PRICE, note), goal="Note.", allowed_toolsets=["prices"], wait_seconds=30
    )

    asked = rig.model.requests("clerk")[0].request
    assert asked is not None
    assert asked.tools == ("look_up_price",)
    assert result.summary is not None
    assert "noted" not in result.summary


def test_a_credential_in_a_document_is_refused_and_never_stored(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    keyed = OpenAiCompatibleConfig(name="mine", model_id="m", url="http://h/v1", api_key="sk-very-secret")
    holder = Agent(name="holder", llm_config=keyed, system_prompt="Role: holder.")
    plain = as_dict(holder)
    plain["llm_config"]["api_key"] = "sk-very-secret"

    for given in (holder, plain, json.dumps(plain)):
        error = refusal(lifecycle, agent=given)
        assert "api_key of OpenAiCompatibleConfig mine" in error.message
        assert "sk-very-secret" not in str(error)
    assert not any("sk-very-secret" in str(rig.store.dump(key)) for key in rig.store.scan_iter())


def test_no_key_of_the_settings_goes_to_a_url_that_came_with_the_launch(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="value_tools") as rig:
        rig.worker(settings={"llm_configs": {"mine": {"api_key": "operators-key"}}})
        llm = OpenAiCompatibleConfig(name="mine", model_id="m", url=rig.model.base_url)
        thief = Agent(name="thief", llm_config=llm, system_prompt="Role: thief.")

        result = rig.lifecycle().run(agent=thief, goal="go", wait_seconds=30)

        assert result.error_classification is ErrorClassification.AGENT_ERROR
        assert "llm_configs.mine.url" in str(result.error_message)
        assert rig.model.count() == 0


def test_a_document_s_model_may_not_be_in_the_operators_network(tmp_path: Path) -> None:
    with run_rig(tmp_path, agents="value_tools") as rig:
        rig.worker()
        llm = OpenAiCompatibleConfig(name="own", model_id="m", url=rig.model.base_url)
        spy = Agent(name="spy", llm_config=llm, system_prompt="Role: spy.")

        result = rig.lifecycle().run(agent=spy, goal="go", wait_seconds=30)

        assert result.error_classification is ErrorClassification.MODEL_REJECTED
        assert "[remote_tools] private_hosts" in str(result.error_message)
        assert rig.model.count() == 0


def test_a_document_with_a_url_of_its_own_runs_without_any_key(
    rig: RunRig, lifecycle: SubagentLifecycle
) -> None:
    script(rig, "keyless").say("Done.")
    llm = OpenAiCompatibleConfig(name="own", model_id="m", url=rig.model.base_url)

    keyless = Agent(name="keyless", llm_config=llm, system_prompt="Role: keyless.")
    result = lifecycle.run(agent=keyless, goal="go", wait_seconds=30)

    assert result.summary == "Done.", result.error_message


def test_a_tools_code_finds_the_documents_agents_by_name(rig: RunRig, lifecycle: SubagentLifecycle) -> None:
    launching = ServerTool(
        name="launch_other",
        description="d",
        inputs=[StringProperty(title="agent"), StringProperty(title="goal")],
    )
    script(rig, "caller").call("launch_other", {"agent": "callee", "goal": "Speak."}).then("Heard ${results}")
    script(rig, "callee").say("a voice")
    group = ManagerWorkers(name="choir", group_manager=agent("caller", launching), workers=[agent("callee")])

    result = lifecycle.run(agent=group, goal="Call.", wait_seconds=30)

    assert result.summary == "Heard a voice"


def test_a_document_that_is_none_is_refused_with_the_mend(
    lifecycle: SubagentLifecycle, tmp_path: Path
) -> None:
    assert "begins as JSON" in refusal(lifecycle, agent='{"component_type": "Agent", ').message
    assert "begins as YAML" in refusal(lifecycle, agent="a: [\nb").message
    assert "no component_type" in refusal(lifecycle, agent={"name": "x"}).message
    assert "cannot be read" in refusal(lifecycle, agent=tmp_path / "missing.yaml").message
    assert refusal(lifecycle, agent=as_dict(agent("x" * 65))).field == "agent_spec.name"
    assert refusal(lifecycle, agent=as_dict(agent("x")), agent_spec={}).field == "agent"
    large = as_dict(agent("x")) | {"metadata": {"pad": "p" * 300_000}}
    assert refusal(lifecycle, agent=large).field == "agent_spec"
