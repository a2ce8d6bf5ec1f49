"""Random swarms, modes and replies: what must hold for every one of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyagentspec.swarm import HandoffMode
from tests.acceptance.patterns.groups import ECHO, Case, hand_off, send, swarm
from tests.acceptance.run_rig import RunRig

from retinue.contract import TERMINAL_STATES, Event, EventType, SubagentState
from retinue.testing import Call, ScriptedRequest, Turn

NAMES = ("ada", "bob", "cid", "dot")
MAX_ITERATIONS = 6
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class World:
    """A swarm to be built, and the seed that its members' replies come from."""

    edges: tuple[tuple[str, str], ...]
    mode: HandoffMode
    seed: int


worlds = st.builds(
    World,
    edges=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), min_size=1, max_size=8, unique=True
    ).map(tuple),
    mode=st.sampled_from(list(HandoffMode)),
    seed=st.integers(0, 2**32),
)


def replies(asked: ScriptedRequest, name: str, seed: int) -> Turn | str:
    """Some reply, the same for the same history: texts, tools, messages and handoffs, good and bad."""
    dice = random.Random(f"{seed}/{name}/{asked.turn}/{len(asked.results)}/{asked.last_user[:40]}")
    if dice.random() < 0.35:
        return f"{name} has said it"
    calls: list[Call] = []
    for number in range(dice.randint(1, 3)):
        whom = dice.choice([*NAMES, "nobody"])
        calls.append(
            dice.choice(
                [
                    Call("echo", {"text": f"{number}"}),
                    Call("nonsense", {}),
                    send(whom, f"{name} to {whom}"),
                    hand_off(whom),
                ]
            )
        )
    return Turn(calls=tuple(calls))


def edges_used(events: list[Event], agents: dict[str, str]) -> set[tuple[str, str]]:
    """Who wrote to whom, and who handed off to whom."""
    used: set[tuple[str, str]] = set()
    active = dict(agents)
    for event in events:
        if event.type is EventType.RUN_HANDED_OFF:
            used.add((str(event.data["from"]), str(event.data["to"])))
            active[event.run_id] = str(event.data["to"])
        if event.type is EventType.RUN_CREATED and event.data["parent_id"] is not None:
            used.add((active[str(event.data["parent_id"])], str(event.data["agent"])))
    return used


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds)
def test_every_call_is_answered_once_no_edge_is_invented_limits_hold_and_the_run_ends(
    patterns_rig: RunRig, world: World
) -> None:
    tag = f"random-{next(_NUMBERS)}"
    case = Case(tag, patterns_rig.model, patterns_rig.lifecycle(tag))
    first = world.edges[0][0]
    members = {name: case.agent(name, tools=[ECHO]) for name in NAMES}
    for name in NAMES:
        case.says(name).reply(lambda asked, name=name: replies(asked, name, world.seed))
    edges = [(members[a], members[b]) for a, b in world.edges]
    handle = case.launch(
        swarm(members[first], *edges, mode=world.mode, name="swarm"), max_iterations=MAX_ITERATIONS
    )

    result = case.ended(handle)

    assert result.terminal_state in {SubagentState.SUCCEEDED, SubagentState.INTERRUPTED}
    for name in NAMES:
        # `asked` fails where the server refused a history: a call unanswered, or answered twice.
        for request in case.asked(name):
            assert len(request.calls) == len(request.results)
    events = list(case.lifecycle.events(handle))
    created = {
        event.run_id: str(event.data["agent"]) for event in events if event.type is EventType.RUN_CREATED
    }
    used = {tuple(first if end == "swarm" else end for end in edge) for edge in edges_used(events, created)}
    assert used <= set(world.edges)
    nodes = case.lifecycle.tree(handle)
    assert all(node.state in TERMINAL_STATES for node in nodes)
    assert max(node.depth for node in nodes) <= 4
    started = [event.run_id for event in events if event.type is EventType.MODEL_STARTED]
    assert started.count(handle.subagent_id) <= MAX_ITERATIONS
    if world.mode is HandoffMode.NEVER:
        assert not any(event.type is EventType.RUN_HANDED_OFF for event in events)
    if world.mode is HandoffMode.ALWAYS:
        assert len(nodes) == 1
