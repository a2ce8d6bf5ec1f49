"""Swarms and managers with workers: who is registered, who reaches whom, and in whose conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyagentspec.a2aagent import A2AAgent, A2AConnectionConfig
from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.agenticcomponent import AgenticComponent
from pyagentspec.flows.flow import Flow
from pyagentspec.flows.flowbuilder import FlowBuilder
from pyagentspec.flows.nodes import EndNode, StartNode
from pyagentspec.llms import VllmConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import IntegerProperty, StringProperty
from pyagentspec.specialized_agent import AgentSpecializationParameters, SpecializedAgent
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import BuiltinTool

from retinue.agents import (
    AgentSpecError,
    DeclarationError,
    Delegation,
    EffectiveSpec,
    Registry,
    SubAgent,
    load_agent_spec,
    resolve,
)
from retinue.agents.registry.catalogue import advertise
from retinue.broker.settings import Settings
from retinue.contract import Role, SubagentLifecycleError

LLM = VllmConfig(name="llm", model_id="m", url="http://h/v1")


def agent(name: str, prompt: str = "", **values: Any) -> SpecAgent:
    values.setdefault("description", f"Is {name}.")
    return SpecAgent(name=name, llm_config=LLM, system_prompt=prompt or f"Be {name}.", **values)


def agents(names: str) -> list[SpecAgent]:
    return [agent(name) for name in names.split()]


def managed(
    name: str, manager: AgenticComponent, *workers: AgenticComponent, **values: Any
) -> ManagerWorkers:
    return ManagerWorkers(name=name, group_manager=manager, workers=list(workers), **values)


def swarm(
    name: str,
    first: AgenticComponent,
    *edges: tuple[AgenticComponent, AgenticComponent],
    mode: str = "optional",
    **values: Any,
) -> Swarm:
    handoff = HandoffMode(mode)
    return Swarm(name=name, first_agent=first, relationships=list(edges), handoff=handoff, **values)


def refusal(component: object) -> str:
    with pytest.raises(AgentSpecError) as caught:
        load_agent_spec(component)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


class Seen:
    """What agents of a registry are offered."""

    def __init__(self, settings: Settings, *objects: object) -> None:
        self.registry = Registry.from_objects(*objects)
        self._settings = settings

    def spec(self, name: str, **launch: Any) -> EffectiveSpec:
        return resolve(self.registry, self._settings, name, **launch)

    def __call__(self, name: str, owns: str | None = None) -> tuple[list[str], list[str]]:
        spec = self.spec(name, owns=owns)
        return [item.registered for item in spec.roster], [item.registered for item in spec.handoffs]


@pytest.mark.parametrize(
    ("mode", "owner", "asked", "tools"),
    [
        ("never", (["b"], []), (["b"], []), ["send_message"]),
        ("optional", (["b"], ["b"]), (["b"], []), ["send_message", "handoff_conversation"]),
        ("always", ([], ["b"]), ([], []), ["handoff_conversation"]),
    ],
)
def test_the_mode_decides_what_the_owner_and_one_that_was_asked_are_offered(
    settings: Settings, mode: str, owner: object, asked: object, tools: list[str]
) -> None:
    a, b = agents("a b")
    component = swarm("s", a, (a, b), (b, a), mode=mode)
    for source in (component, component.to_json(), component.to_yaml()):
        seen = Seen(settings, load_agent_spec(source))
        assert set(seen.registry.agents) == {"s", "a", "b"}
        assert seen("s") == owner
        assert seen("a", owns="s") == owner  # handed back
        assert seen("a", owns="a") == asked  # asked by b
        spec = seen.spec("s")
        assert [tool.name for tool in spec.built_in_tools] == tools
        assert (spec.title, spec.groups) == ("a", ("s",))
        assert {(item.scope, item.sender) for item in (*spec.roster, *spec.handoffs)} == {("s", "a")}


def test_a_member_reaches_those_that_its_own_edges_lead_to(settings: Settings) -> None:
    a, b, c = agents("a b c")
    seen = Seen(settings, swarm("s", a, (a, b), (b, c)))
    assert seen("b", "s") == (["c"], ["c"])
    assert seen("c", "s") == ([], [])
    assert seen.spec("c", owns="s").delegation is Delegation.NONE


def test_an_edge_to_itself_takes_messages_and_no_conversation(settings: Settings) -> None:
    a, b = agents("a b")
    declaration = load_agent_spec(swarm("s", a, (a, a), (a, b)))
    assert "relationship 'a' -> 'a' of swarm 's' leads back" in declaration.notes[0]
    assert Seen(settings, declaration)("s") == (["a", "b"], ["b"])


def test_the_deepest_level_sends_nothing_and_may_still_hand_off(settings: Settings) -> None:
    a, b = agents("a b")
    spec = Seen(settings, swarm("s", a, (a, b))).spec("s", may_delegate=False, role=Role.ORCHESTRATOR)
    assert (spec.roster, [item.name for item in spec.handoffs]) == ((), ["b"])
    assert [tool.name for tool in spec.built_in_tools] == ["handoff_conversation"]


def test_an_empty_grant_and_blocked_names_take_the_tools_away_and_the_prompt_does_not_speak_of_them(
    settings: Settings,
) -> None:
    a, b = agents("a b")
    seen = Seen(settings, swarm("s", a, (a, b)))
    assert seen.spec("s", allowed_toolsets=()).built_in_tools == ()
    blocked = seen.spec("s", blocked_tools=("handoff_conversation",))
    assert [tool.name for tool in blocked.built_in_tools] == ["send_message"]
    assert "handoff_conversation" not in blocked.instructions


def test_a_manager_sends_and_its_workers_know_nothing_of_the_group(settings: Settings) -> None:
    boss, clerk = agents("boss clerk")
    seen = Seen(settings, managed("team", boss, clerk))
    assert set(seen.registry.agents) == {"team", "clerk"}
    assert seen("team") == (["clerk"], [])
    worker = seen.spec("clerk")
    assert (worker.groups, worker.instructions, worker.built_in_tools) == ((), "Be clerk.", ())
    (line,) = seen.spec("team").roster
    assert (line.scope, line.sender) == ("team", "team")
    assert seen.spec("team").title == "team"


def test_managers_nest_and_share_workers(settings: Settings) -> None:
    boss, lead, shared = agents("boss lead shared")
    inner = managed("inner", lead, shared)
    seen = Seen(settings, managed("outer", boss, inner, shared))
    assert set(seen.registry.agents) == {"outer", "inner", "shared"}
    assert seen("outer") == (["inner", "shared"], [])
    assert seen("inner", owns="inner") == (["shared"], [])


def test_forty_levels_are_too_many_and_thirty_are_not() -> None:
    def nested(levels: int) -> AgenticComponent:
        component: AgenticComponent = agent("leaf")
        for level in range(levels):
            component = managed(f"g{level}", agent("m"), component)
        return component

    assert len(load_agent_spec(nested(30)).members) == 31
    assert "nested deeper than 32" in refusal(nested(40))


def test_a_manager_that_is_a_group_brings_its_workers(settings: Settings) -> None:
    lead, a, b = agents("lead a b")
    seen = Seen(settings, managed("outer", managed("inner", lead, a), b))
    assert set(seen.registry.agents) == {"outer", "a", "b"}
    assert seen("outer") == (["a", "b"], [])
    assert [item.scope for item in seen.spec("outer").roster] == ["inner", "outer"]
    assert seen.registry.agent("outer").prompt == "Be lead."


def test_each_speaker_of_a_swarm_that_manages_reaches_the_workers(settings: Settings) -> None:
    front, expert, clerk = agents("front expert clerk")
    lead = swarm("lead", front, (front, expert), mode="always")
    seen = Seen(settings, managed("team", lead, clerk))
    assert seen("team") == (["clerk"], ["expert"])
    assert seen("expert", owns="team") == (["clerk"], [])
    # Whoever speaks, the worker has one boss: one thread, and one caller that it may not write to.
    lines = [*seen.spec("team").roster, *seen.spec("expert", owns="team").roster]
    assert {item.sender for item in lines} == {"team"}


def test_only_the_first_agent_speaks_for_a_swarm_without_handoffs(settings: Settings) -> None:
    front, expert, clerk = agents("front expert clerk")
    seen = Seen(settings, managed("team", swarm("lead", front, (front, expert), mode="never"), clerk))
    assert seen("team") == (["expert", "clerk"], [])
    assert seen("expert", owns="team") == ([], [])


def test_a_swarm_within_a_swarm_is_one_member_of_it_whoever_speaks(settings: Settings) -> None:
    first, front, expert, clerk = agents("first front expert clerk")
    desk = swarm("desk", front, (front, expert), (expert, front))
    outer = swarm("outer", first, (first, desk), (desk, clerk), (desk, first))
    seen = Seen(settings, outer)
    assert set(seen.registry.agents) == {"outer", "first", "desk", "front", "expert", "clerk"}
    assert seen("outer") == (["desk"], ["desk"])
    # Asked by `first`: its own conversation, which it may not give away, with its peers in reach.
    assert seen("desk") == (["expert", "clerk", "first"], ["expert"])
    assert seen("expert", owns="desk") == (["front", "clerk", "first"], ["front"])
    # Handed over: the outer conversation.
    assert seen("desk", owns="outer") == (["expert", "clerk", "first"], ["expert", "clerk", "first"])
    assert seen("expert", owns="outer")[1] == ["front", "clerk", "first"]
    # Asked by `front`, within the desk.
    assert seen("expert", owns="expert") == (["front"], [])
    spec = seen.spec("desk")
    assert (spec.groups, spec.title) == (("outer", "desk"), "front")
    assert {(item.scope, item.sender) for item in spec.roster} == {("desk", "front"), ("outer", "desk")}


def test_groups_that_begin_with_groups_act_as_the_innermost_first_agent(settings: Settings) -> None:
    a, b, c, d = agents("a b c d")
    inner = swarm("inner", a, (a, b))
    middle = swarm("middle", inner, (inner, c))
    seen = Seen(settings, swarm("outer", middle, (middle, d), mode="always"))
    spec = seen.spec("outer")
    assert (spec.title, spec.groups) == ("a", ("outer", "middle", "inner"))
    assert seen("outer") == (["b", "c"], ["b", "c", "d"])
    assert seen("middle") == (["b", "c"], ["b", "c"])
    assert seen("inner") == (["b", "c"], ["b"])


def test_a_manager_in_a_swarm_is_known_by_its_groups_name(settings: Settings) -> None:
    head, clerk, first = agents("head clerk first")
    office = managed("office", head, clerk)
    seen = Seen(settings, swarm("s", office, (office, first), (first, office)))
    assert set(seen.registry.agents) == {"s", "office", "clerk", "first"}
    assert seen.spec("s").title == "office"
    assert seen("s") == (["clerk", "first"], ["first"])
    assert seen("office", owns="s") == (["clerk", "first"], ["first"])


def test_names_are_unique_within_a_group_only(settings: Settings) -> None:
    boss, left, right = agents("boss left right")
    one, two = managed("one", left, agent("helper")), managed("two", right, agent("helper"))
    declaration = load_agent_spec(managed("team", boss, one, two))
    assert [item.name for item in declaration.members] == ["team", "one", "two", "helper", "two/helper"]
    seen = Seen(settings, declaration)
    (line,) = seen.spec("two").roster
    assert (line.name, line.registered) == ("helper", "two/helper")
    assert seen.spec("two").built_in_tools[0].parameters["properties"]["recipient"]["enum"] == ["helper"]  # pyright: ignore
    assert seen.spec("two").may_launch("two/helper")


def test_a_first_agent_of_the_swarms_own_name_is_registered_within_it(settings: Settings) -> None:
    a, b = agents("desk b")
    seen = Seen(settings, swarm("desk", a, (a, b), (b, a)))
    assert set(seen.registry.agents) == {"desk", "desk/desk", "b"}
    assert seen("b", owns="desk") == (["desk/desk"], ["desk/desk"])
    assert seen.spec("desk").title == "desk"


def test_members_may_all_be_registered_within_their_group(settings: Settings) -> None:
    a, b = agents("a b")
    first, second = (
        load_agent_spec(swarm("s", x, (x, y)), name=name, qualified=True)
        for name, (x, y) in (("one", (a, b)), ("two", (agent("a"), agent("b"))))
    )
    seen = Seen(settings, first, second)
    assert set(seen.registry.agents) == {"one", "one/a", "one/b", "two", "two/a", "two/b"}
    assert seen("two") == (["two/b"], ["two/b"])


def test_a_component_that_stands_in_two_groups_has_a_registration_in_each(settings: Settings) -> None:
    a, b, c = agents("a b c")
    seen = Seen(settings, a, swarm("s", a, (a, b), (b, a)), swarm("t", b, (b, a), (a, c)))
    assert set(seen.registry.agents) == {"a", "s", "s/a", "b", "t", "t/a", "t/b", "c"}
    assert seen("a") == ([], [])
    assert seen("s") == (["b"], ["b"])
    assert seen("b", owns="s") == (["s/a"], ["s/a"])
    assert seen("t/a", owns="t") == (["c"], ["c"])


def test_a_group_that_stands_alone_and_as_a_worker_is_one_registration_whatever_comes_first(
    settings: Settings,
) -> None:
    a, b, boss = agents("a b boss")
    desk = swarm("desk", a, (a, b))
    team = managed("team", boss, desk)
    for declared in ([a, b, desk, team], [team, desk, b, a], [desk, desk, team]):
        seen = Seen(settings, *declared)
        standing = {"a", "b"} if a in declared else set[str]()
        assert set(seen.registry.agents) == {"team", "desk"} | (
            standing | {"desk/a", "desk/b"} if standing else {"a", "b"}
        )
        assert seen("team") == (["desk"], [])
        assert len(seen("desk")[1]) == 1


def test_a_swarm_may_be_a_sub_agent_under_another_name(settings: Settings) -> None:
    a, b = agents("a b")
    component = swarm("s", a, (a, b))
    for value in (component, load_agent_spec(component)):
        seen = Seen(settings, SubAgent(name="team", agent=value, description="d"))  # pyright: ignore
        assert set(seen.registry.agents) == {"team", "a", "b"}
        assert seen("team") == (["b"], ["b"])
        assert seen("b", owns="team") == ([], [])
        assert seen("a", owns="team") == (["b"], ["b"])


def test_agents_of_one_name_in_two_documents_name_both_places() -> None:
    a, b, other = agents("a b a")
    with pytest.raises(DeclarationError, match="'a': at argument 1 and at argument 0") as caught:
        Registry.from_objects(swarm("s", a, (a, b)), other)
    assert "qualified=True" in str(caught.value)


def test_inputs_reach_every_member_and_missing_ones_are_listed_for_all(settings: Settings) -> None:
    boss, front = agent("boss", "Shop {{shop}}."), agent("front", "In {{city}}.")
    expert = agent("expert", "On {{day}}, {{count}} times.")
    desk = swarm("desk", front, (front, expert), inputs=[IntegerProperty(title="count")])
    team = managed("team", boss, desk, inputs=[StringProperty(title="city", default="Ulm")])
    declaration = load_agent_spec(team)
    assert "'expert' needs day, which no group around it declares" in " ".join(declaration.notes)
    seen = Seen(settings, declaration)
    with pytest.raises(SubagentLifecycleError) as caught:
        seen.spec("team")
    assert "team needs shop" in str(caught.value)
    assert "expert needs day, count" in str(caught.value)
    with pytest.raises(SubagentLifecycleError, match="expert needs count as integer"):
        seen.spec("team", inputs={"shop": "s", "day": "d", "count": "3"})
    given = {"shop": "s", "day": "Monday", "count": 3}
    assert seen.spec("desk", inputs=given).instructions.endswith("In Ulm.")
    assert seen.spec("expert", inputs=given, owns="desk").instructions.endswith("On Monday, 3 times.")
    advert: Any = advertise(seen.registry, settings)["agents"]
    by_name = {item["name"]: item for item in advert}
    assert by_name["team"]["inputs"] == ["count", "day", "shop"]
    assert by_name["desk"]["sub_agents"] == ["expert"]


def test_outputs_are_the_groups_and_else_those_of_whom_nobody_can_replace(settings: Settings) -> None:
    price, name = IntegerProperty(title="price"), StringProperty(title="name", default="lamp")

    def properties(component: AgenticComponent, agent_name: str, owns: str | None = None) -> list[str] | None:
        schema = Seen(settings, component).spec(agent_name, owns=owns).output_schema
        return None if schema is None else list(schema["properties"])  # pyright: ignore

    a, b = agent("a", outputs=[name]), agent("b", outputs=[name])
    declared = swarm("s", a, (a, b), (b, a), outputs=[price])
    assert properties(declared, "s") == ["price"]
    assert properties(declared, "b", owns="s") == ["price"]
    assert properties(declared, "b", owns="b") == ["name"]
    assert properties(swarm("s", a, (a, b)), "s") is None
    assert properties(swarm("s", a, (a, b), mode="never"), "s") == ["name"]
    assert properties(managed("g", a, agent("w")), "g") == ["name"]
    schema = Seen(settings, managed("g", a, agent("w"), outputs=[price, name])).spec("g").output_schema
    assert schema == {
        "type": "object",
        "properties": {"price": {"type": "integer"}, "name": {"type": "string", "default": "lamp"}},
        "required": ["price"],
        "additionalProperties": False,
    }


def test_prompts_tell_a_member_its_place(settings: Settings) -> None:
    a, b, c = agents("a b c")
    seen = Seen(settings, swarm("s", a, (a, b), (a, c), mode="optional"))
    owner = seen.spec("s").instructions
    assert owner.startswith("You are a. Is a.\n\nYou work in a group of agents.")
    assert "- b: Is b.\n- c: Is c." in owner
    assert "send_message" in owner
    assert "handoff_conversation" in owner
    assert owner.endswith("Your instructions:\nBe a.")
    asked = seen.spec("a", owns="a").instructions
    assert "handoff_conversation" not in asked
    last = seen.spec("c", owns="s").instructions
    assert "You can reach" not in last
    assert "send_message" not in last
    always = Seen(settings, swarm("s", a, (a, b), mode="always")).spec("s").instructions
    assert "There is no other way" in always
    assert "send_message" not in always


def test_a_description_with_braces_is_not_filled_in(settings: Settings) -> None:
    boss, clerk = agent("boss", "Be {{tone}}."), agent("clerk", description="Fills {{tone}} in.")
    spec = Seen(settings, managed("g", boss, clerk)).spec("g", inputs={"tone": "kind"})
    assert "- clerk: Fills {{tone}} in." in spec.instructions
    assert spec.instructions.endswith("Be kind.")


def test_a_specialized_agent_may_be_a_member(settings: Settings) -> None:
    base, boss = agents("base boss")
    special = SpecializedAgent(
        name="special",
        agent=base,
        agent_specialization_parameters=AgentSpecializationParameters(
            name="p", additional_instructions="More."
        ),
    )
    seen = Seen(settings, swarm("s", boss, (boss, special), (boss, base)))
    assert seen("s") == (["special", "base"], ["special", "base"])
    assert seen.spec("special", owns="s").instructions.endswith("Be base.\n\nMore.")
    assert seen.spec("s").roster[0].description == "Is base."


def test_all_problems_of_a_document_are_listed_at_once() -> None:
    a, b, c = agents("a b c")
    tool = BuiltinTool(name="browse", tool_type="web", description="d")
    nameless, twin, tooled = agent(""), agent("b"), agent("tooled", tools=[tool])
    inner = swarm("inner", c, (a, b), (a, b))
    text = refusal(managed("g", agent("boss"), inner, nameless, b, twin, tooled))
    assert "relationship 'a' -> 'b' of swarm 'inner' is listed twice: take one out" in text
    assert "first agent 'c' of swarm 'inner' is in no relationship: add one that starts from it" in text
    assert "Agent in 'g': it has no name: give it one" in text
    assert "two members of 'g' are named 'b': rename one" in text
    assert "BuiltinTool 'browse' of agent 'tooled' is not supported" in text


def test_manager_and_worker_of_one_name_and_a_worker_that_is_listed_twice_are_refused() -> None:
    worker = agent("w")
    assert "two members of 'g' are named 'w'" in refusal(managed("g", agent("w"), worker))
    assert "two members of 'g' are named 'w'" in refusal(managed("g", agent("m"), worker, worker))


def test_two_agents_that_a_speaker_could_not_tell_apart_are_refused() -> None:
    front, first, clerk, other = agents("front first clerk clerk")
    desk = swarm("desk", front, (front, clerk))
    text = refusal(swarm("outer", first, (first, desk), (desk, other)))
    assert "'front' can reach two agents named 'clerk', through two groups" in text


def test_a_name_that_would_become_too_long_is_refused_with_the_mend() -> None:
    name = "n" * 60
    text = refusal(managed(name, agent("boss"), agent(name)))
    assert f"rename {name!r} of {name!r}" in text


def test_unreachable_members_and_missing_descriptions_are_noted() -> None:
    a, b, c, d = agent("a"), agent("b", description=None), agent("c"), agent("d")
    notes = load_agent_spec(swarm("s", a, (a, b), (c, d))).notes
    assert notes == (
        "'c' of 's' cannot be reached from the first agent, 'a'",
        "'d' of 's' cannot be reached from the first agent, 'a'",
        "'b' of 's' has no description: the others know it by its name alone",
    )


def test_other_kinds_are_named_wherever_they_stand() -> None:
    start, end = StartNode(name="s"), EndNode(name="e")
    flow: Flow = FlowBuilder().add_sequence([start, end]).build("f")
    remote = A2AAgent(name="far", agent_url="http://h", connection_config=A2AConnectionConfig(name="c"))
    a, b = agents("a b")
    assert "Flow 'f' is not supported" in refusal(flow)
    for component in (managed("g", a, flow), managed("g", flow, a), swarm("s", a, (a, b), (b, flow))):
        assert "Flow 'f' is not supported: put an agent or a group in its place" in refusal(component)
    assert "A2AAgent 'far' is not supported" in refusal(swarm("s", remote, (remote, a)))
    assert "VllmConfig 'llm' is not supported" in refusal(LLM)


def test_a_boolean_handoff_of_older_documents_is_read(settings: Settings) -> None:
    a, b = agents("a b")
    document: dict[str, Any] = json.loads(swarm("s", a, (a, b)).to_json())
    for value, handoffs in ((True, ["b"]), (False, [])):
        assert Seen(settings, load_agent_spec({**document, "handoff": value}))("s") == (["b"], handoffs)
