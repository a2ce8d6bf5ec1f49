from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import VllmConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import Property, StringProperty
from pyagentspec.specialized_agent import AgentSpecializationParameters, SpecializedAgent
from pyagentspec.tools import ServerTool

from retinue.agents import (
    AgentSpecDeclaration,
    AgentSpecError,
    DeclarationError,
    Delegation,
    Registry,
    SubAgent,
    load_agent_spec,
    resolve,
    tool,
)
from retinue.broker.settings import Settings
from retinue.contract import SubagentLifecycleError

LLM = VllmConfig(name="llm", model_id="m", url="http://h/v1")


@tool(name="Check refund eligibility")
def check_eligibility(order_id: str, customer_id: str) -> dict[str, bool]:
    return {order_id: bool(customer_id)}


@tool
def process_refund(order_id: str, amount: float, reason: str) -> str:
    return f"{order_id}{amount}{reason}"


@tool(name="Record survey response")
def record(customer_id: str, satisfaction_score: int | None = None, comments: str | None = None) -> bool:
    return bool(customer_id or satisfaction_score or comments)


def member(name: str, prompt: str = "Do it.", **values: Any) -> SpecAgent:
    return SpecAgent(name=name, llm_config=LLM, system_prompt=prompt, **values)


def group(name: str, manager: Any, *workers: Any, **values: Any) -> ManagerWorkers:
    return ManagerWorkers(name=name, group_manager=manager, workers=list(workers), **values)


def refusal(component: object) -> str:
    with pytest.raises(AgentSpecError) as caught:
        load_agent_spec(component)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


@pytest.mark.parametrize("name", ["howto_managerworkers.yaml", "howto_managerworkers.json"])
def test_the_published_group_loads_unchanged_and_resolves(
    spec_files: Path, settings: Settings, name: str
) -> None:
    declaration = load_agent_spec(spec_files / "agent-spec" / name)
    registry = Registry.from_objects(declaration, check_eligibility, process_refund, record)
    assert set(registry.agents) == {"managerworkers", "RefundSpecialist", "SatisfactionSurveyor"}
    inputs: dict[str, Any] = {"customer_id": "c-1", "company_policy_info": "none"}
    spec = resolve(registry, settings, "managerworkers", inputs=inputs)
    assert "Customer ID: c-1\nCompany policies: none" in spec.instructions
    assert spec.delegation is Delegation.SEND_MESSAGE
    assert [item.name for item in spec.roster] == ["RefundSpecialist", "SatisfactionSurveyor"]
    assert spec.llm is not None
    assert (spec.llm.url, spec.model) == ("http://url.to.my.vllm.server/llama4mav/v1", "llama-4-maverick")
    worker = resolve(registry, settings, "RefundSpecialist", inputs=inputs, parent=spec.inheritance())
    assert [item.api_name for item in worker.tools] == ["Check_refund_eligibility", "Process_refund"]
    assert [item.name for item in worker.tools] == ["Check refund eligibility", "process_refund"]
    survey = resolve(registry, settings, "SatisfactionSurveyor", inputs=inputs).tools[0]
    assert survey.parameters["required"] == ["customer_id"]


REJECTED = {
    "agent-spec/howto_disaggregated_component_config.yaml": "holds parts of another document",
    "agent-spec/howto_disaggregated_main_config.yaml": "client_weather_tool",
    "wayflow/docs_howto_managerworkers2.yaml": r"agentspec_version '26.2.0' is none that .* knows \(25.3.0,",
    "wayflow/docs_howto_swarm2.yaml": "agentspec_version '26.2.0'",
    "wayflow/agent_with_sensitive_fields.json": r'OciGenAiConfig.*remote_tools.tools."tool_name1"\] headers',
}


def published(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".json"))
    return [str(path.relative_to(folder)) for path in files]


def test_every_published_document_loads_unless_it_is_listed_as_rejected(spec_files: Path) -> None:
    names = published(spec_files)
    assert set(REJECTED) < set(names)
    for name in names:
        if name not in REJECTED:
            assert load_agent_spec(spec_files / name).members


@pytest.mark.parametrize(("name", "reason"), REJECTED.items())
def test_what_cannot_be_loaded_is_one_clear_error(spec_files: Path, name: str, reason: str) -> None:
    with pytest.raises(AgentSpecError, match=reason):
        load_agent_spec(spec_files / name)


def test_a_disaggregated_document_loads_with_its_parts(spec_files: Path) -> None:
    folder = spec_files / "agent-spec"
    main = folder / "howto_disaggregated_main_config.yaml"
    parts = folder / "howto_disaggregated_component_config.yaml"
    entry = load_agent_spec(main, components_registry=parts).entry
    assert (entry.name, [item.name for item in entry.tools]) == ("Weather Agent", ["get_weather"])


def test_parts_may_be_text_dict_list_or_components() -> None:
    main, parts = member("a").to_yaml(
        disaggregated_components=[(LLM, "llm")], export_disaggregated_components=True
    )
    for registry in (parts, [parts], {"llm": LLM}):
        assert load_agent_spec(main, components_registry=registry).entry.llm.model == "m"


def test_yaml_json_dict_and_objects_say_the_same(tmp_path: Path) -> None:
    component = group("g", member("boss", "Lead {{team}}."), member("w", description="works"))
    text = component.to_json()
    path = tmp_path / "g.yaml"
    path.write_text(component.to_yaml())
    shapes = [
        [(m.name, m.prompt, m.roster, m.inputs) for m in load_agent_spec(source).members]
        for source in (component, text, json.loads(text), component.to_yaml(), path, str(path))
    ]
    assert all(shape == shapes[0] for shape in shapes)
    assert [item[0] for item in shapes[0]] == ["g", "w"]


def test_a_document_may_get_another_name() -> None:
    assert load_agent_spec(member("Weather Agent"), name="weather").name == "weather"


def test_module_level_components_are_registered_without_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop_spec_objects.py").write_text(
        "from pyagentspec.agent import Agent\n"
        "from pyagentspec.llms import VllmConfig\n"
        "from pyagentspec.managerworkers import ManagerWorkers\n"
        "llm = VllmConfig(name='l', model_id='m', url='http://h')\n"
        "boss = Agent(name='boss', llm_config=llm, system_prompt='x')\n"
        "worker = Agent(name='worker', llm_config=llm, system_prompt='x')\n"
        "team = ManagerWorkers(name='team', group_manager=boss, workers=[worker])\n"
        "other = ManagerWorkers(name='other', group_manager=boss, workers=[worker])\n"
    )
    registry = Registry.load(["shop_spec_objects"])
    assert set(registry.agents) == {"boss", "worker", "team", "other"}
    assert registry.agent("boss").roster == ()


def test_two_documents_with_a_member_of_one_name_name_both_places() -> None:
    first = load_agent_spec(group("g", member("boss"), member("w")))
    second = load_agent_spec(group("h", member("boss"), member("w")))
    with pytest.raises(DeclarationError, match="'w': at argument 0 and at argument 1"):
        Registry.from_objects(first, second)


def test_a_document_may_be_a_sub_agent_under_another_name() -> None:
    component = group("g", member("boss"), member("w"))
    for agent in (component, load_agent_spec(component)):
        sub_agent = SubAgent(name="team", agent=agent, description="The team.")  # pyright: ignore
        registry = Registry.from_objects(sub_agent)
        assert set(registry.agents) == {"team", "w"}
        entry = registry.agent("team")
        assert (entry.description, entry.delegation) == ("The team.", Delegation.SEND_MESSAGE)


def test_a_specialized_agent_is_flattened() -> None:
    extra = ServerTool(name="extra", description="e", inputs=[StringProperty(title="q")])
    base = member("base", "Know {{topic}}.", tools=[ServerTool(name="own", description="o")])
    parameters = AgentSpecializationParameters(
        name="p", additional_instructions="Write about {{goal}}.", additional_tools=[extra]
    )
    component = SpecializedAgent(name="essayist", agent=base, agent_specialization_parameters=parameters)
    entry = load_agent_spec(component).entry
    assert entry.prompt == "Know {{topic}}.\n\nWrite about {{goal}}."
    assert [item.name for item in entry.tools] == ["own", "extra"]
    assert [item.name for item in entry.inputs] == ["topic", "goal"]


def test_missing_inputs_are_listed_for_all_members_at_once(settings: Settings) -> None:
    inputs = [
        StringProperty(title="tone", default="kind"),
        Property(json_schema={"title": "limit", "type": "integer"}),
    ]
    worker = member(
        "w",
        "Be {{tone}} to {{customer}} up to {{limit}}.",
        inputs=[*inputs, StringProperty(title="customer")],
    )
    registry = Registry.from_objects(group("g", member("boss", "Lead {{team}}."), worker))
    with pytest.raises(SubagentLifecycleError) as caught:
        resolve(registry, settings, "g")
    assert "g needs team" in str(caught.value)
    assert "w needs customer, limit" in str(caught.value)
    with pytest.raises(SubagentLifecycleError, match="w needs limit as integer"):
        resolve(registry, settings, "g", inputs={"team": "x", "customer": "c", "limit": "many"})
    given: dict[str, Any] = {"team": "x", "customer": "c", "limit": 3, "unused": 1}
    parent = resolve(registry, settings, "g", inputs=given).inheritance()
    child = resolve(registry, settings, "w", inputs=given, parent=parent)
    assert child.instructions == "Be kind to c up to 3."


def test_a_groups_default_stands_in_for_its_managers_input(settings: Settings) -> None:
    component = group(
        "g",
        member("boss", "Lead {{team}}."),
        member("w"),
        inputs=[StringProperty(title="team", default="red")],
    )
    spec = resolve(Registry.from_objects(component), settings, "g")
    assert spec.instructions.endswith("Lead red.")


def test_tools_with_one_name_for_the_model_are_refused() -> None:
    tools = [ServerTool(name="a b", description="d"), ServerTool(name="a_b", description="d")]
    assert "same name 'a_b' for the model" in refusal(member("x", tools=tools))
    assert "two tools named 'a b'" in refusal(member("x", tools=[tools[0], tools[0]]))
    assert "built-in tool" in refusal(member("x", tools=[ServerTool(name="send message", description="d")]))


def test_a_server_tool_that_is_not_registered_stops_the_worker_with_all_that_are_missing() -> None:
    tools = [ServerTool(name="Proces refund", description="d"), ServerTool(name="zzz", description="d")]
    with pytest.raises(AgentSpecError) as caught:
        Registry.from_objects(member("x", tools=tools), check_eligibility, process_refund)
    assert "'Proces refund' is not registered (did you mean 'process_refund'?)" in str(caught.value)
    assert "'zzz' is not registered" in str(caught.value)


def test_a_server_tool_whose_arguments_do_not_fit_the_function_is_refused() -> None:
    wanted = ServerTool(name="process_refund", description="d", inputs=[StringProperty(title="order")])
    with pytest.raises(AgentSpecError) as caught:
        Registry.from_objects(member("x", tools=[wanted]), process_refund)
    assert "has no parameter 'order'" in str(caught.value)
    assert "needs 'amount'" in str(caught.value)


def test_a_credential_in_a_document_is_refused_and_never_repeated() -> None:
    llm = {
        "component_type": "VllmConfig",
        "name": "l",
        "model_id": "m",
        "url": "http://h",
        "api_key": "hunter2",
    }
    document: dict[str, Any] = {
        "component_type": "Agent",
        "name": "a",
        "system_prompt": "x",
        "llm_config": llm,
        "agentspec_version": "26.1.0",
    }
    with pytest.raises(AgentSpecError, match="api_key") as caught:
        load_agent_spec(document)
    assert "hunter2" not in str(caught.value)
    llm["url"] = {"nested": "hunter2"}  # pyright: ignore[reportArgumentType]
    with pytest.raises(AgentSpecError) as caught:
        load_agent_spec(document)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("source", ["a: [", "{", "", "just words", {}, {"component_type": "Nope"}, 3, None])
def test_what_is_no_document_is_refused(source: Any) -> None:
    with pytest.raises(AgentSpecError):
        load_agent_spec(source)


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AgentSpecError, match=r"absent\.yaml cannot be read"):
        load_agent_spec(tmp_path / "absent.yaml")


def test_what_is_doubtful_is_noted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    declaration = load_agent_spec(group("g", member("boss"), member("w")))
    assert isinstance(declaration, AgentSpecDeclaration)
    assert declaration.notes == ("'w' of 'g' has no description: the others know it by its name alone",)
    Registry.from_objects(declaration)
    assert "agent_spec_note place=argument 0" in caplog.text


def test_faults_of_a_document_are_listed_at_once_with_the_components_names() -> None:
    llm = {"component_type": "VllmConfig", "name": "l", "model_id": "m", "url": "u"}
    good = {"component_type": "Agent", "name": "a", "system_prompt": "x", "llm_config": llm}
    half = {
        "component_type": "Agent",
        "name": "b",
        "llm_config": {"component_type": "VllmConfig", "name": "k"},
    }
    lonely = {"component_type": "ManagerWorkers", "name": "lonely", "group_manager": good, "workers": []}
    document: dict[str, Any] = {
        "agentspec_version": "26.1.0",
        "component_type": "Swarm",
        "name": "s",
        "first_agent": good,
        "relationships": [[good, {"$component_ref": "half"}], [good, lonely]],
        "$referenced_components": {"half": half},
    }
    with pytest.raises(AgentSpecError) as caught:
        load_agent_spec(document)
    text = str(caught.value)
    assert "VllmConfig 'k': model_id: Field required; VllmConfig 'k': url: Field required" in text
    assert "Agent 'b': system_prompt: Field required" in text
    assert "ManagerWorkers 'lonely': Cannot define a `ManagerWorkers` with no worker" in text
    document["relationships"] = [[good, {"component_type": "Robot", "name": "r"}]]
    with pytest.raises(AgentSpecError, match="Robot 'r' is of no kind that Agent Spec has"):
        load_agent_spec(document)


@pytest.mark.parametrize(
    ("own", "added", "kept"), [(True, None, True), (False, None, False), (True, False, False)]
)
def test_whether_a_human_is_there_to_answer_is_kept(
    settings: Settings, own: bool, added: bool | None, kept: bool
) -> None:
    parameters = AgentSpecializationParameters(name="p", human_in_the_loop=added)
    component = SpecializedAgent(
        name="s", agent=member("a", human_in_the_loop=own), agent_specialization_parameters=parameters
    )
    declaration = load_agent_spec(component)
    assert declaration.entry.human_in_the_loop is kept
    told = resolve(Registry.from_objects(declaration), settings, "s").instructions
    assert ("Nobody answers questions here" in told) is not kept
