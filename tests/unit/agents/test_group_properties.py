"""Random groups within groups: nobody is ever offered an edge that the document lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.agenticcomponent import AgenticComponent
from pyagentspec.llms import VllmConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.swarm import HandoffMode, Swarm

from retinue.agents import Registry
from retinue.agents.effective.offer import Offer
from retinue.agents.registry.entry import AgentEntry

LLM = VllmConfig(name="llm", model_id="m", url="http://h/v1")


@st.composite
def components(draw: st.DrawFn, depth: int = 3) -> AgenticComponent:
    """An agent, or a group of such; all names differ."""
    kind = draw(st.sampled_from(["agent", "swarm", "managed"])) if depth else "agent"
    name = f"{kind}-{draw(st.uuids())}"
    if kind == "agent":
        return SpecAgent(name=name, llm_config=LLM, system_prompt="x")
    members = draw(st.lists(components(depth=depth - 1), min_size=2, max_size=4))
    if kind == "managed":
        return ManagerWorkers(name=name, group_manager=members[0], workers=members[1:])
    pairs = [(a, b) for a in members for b in members if a is not b]
    chosen = draw(
        st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique_by=lambda p: (id(p[0]), id(p[1])))
    )
    edges = [(members[0], members[1]), *(pair for pair in chosen if pair != (members[0], members[1]))]
    mode = draw(st.sampled_from(list(HandoffMode)))
    return Swarm(name=name, first_agent=members[0], relationships=edges, handoff=mode)


def groups_of(component: AgenticComponent) -> Iterator[Any]:
    """The group, and those within it."""
    if isinstance(component, Swarm):
        yield component
        ends = {id(end): end for pair in component.relationships for end in pair}
        for member in ends.values():
            yield from groups_of(member)
    elif isinstance(component, ManagerWorkers):
        yield component
        for member in (component.group_manager, *component.workers):
            yield from groups_of(member)


def allowed(component: AgenticComponent) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """The (group, sender, recipient) that messages may take, and those that conversations may."""
    sends: set[tuple[str, str, str]] = set()
    hands: set[tuple[str, str, str]] = set()
    for group in groups_of(component):
        if isinstance(group, ManagerWorkers):
            sends |= {(group.name, group.name, worker.name) for worker in group.workers}
            continue
        edges = {(group.name, a.name, b.name) for a, b in group.relationships}
        sends |= edges if group.handoff is not HandoffMode.ALWAYS else set()
        hands |= edges if group.handoff is not HandoffMode.NEVER else set()
    return sends, hands


@given(components())
@examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_offer_is_an_edge_of_the_document_and_leads_to_a_registered_agent(
    component: AgenticComponent,
) -> None:
    registry = Registry.from_objects(component)
    sends, hands = allowed(component)
    launched = [None, *(entry.group for entry in registry.agents.values() if entry.group)]
    for entry in registry.agents.values():
        for owned in launched:
            offer = Offer.of(entry, owned)
            assert {(item.scope, item.sender, item.name) for item in offer.roster} <= sends
            assert {(item.scope, item.sender, item.name) for item in offer.handoffs} <= hands
            for item in (*offer.roster, *offer.handoffs):
                assert item.registered in registry.agents
            assert owned in entry.groups or not offer.handoffs


@given(components())
@examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_conversation_stays_with_speakers_of_the_group_that_it_was_started_for(
    component: AgenticComponent,
) -> None:
    registry = Registry.from_objects(component)
    for start in registry.agents.values():
        if start.group is None:
            continue
        seen: dict[str, AgentEntry] = {start.name: start}
        waiting = [start]
        while waiting:
            entry = waiting.pop()
            assert start.group in entry.groups
            for item in Offer.of(entry, start.group).handoffs:
                if item.registered not in seen:
                    seen[item.registered] = registry.agents[item.registered]
                    waiting.append(seen[item.registered])
