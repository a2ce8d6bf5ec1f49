"""Groups within groups: each keeps its own conversation, and is one member to the group around it."""

from __future__ import annotations

from pyagentspec.property import StringProperty
from pyagentspec.specialized_agent import AgentSpecializationParameters, SpecializedAgent
from pyagentspec.swarm import HandoffMode
from tests.acceptance.patterns.groups import (
    ECHO,
    Case,
    everything_heard,
    hand_off,
    managed,
    results_of,
    send,
    swarm,
    users_of,
)

from retinue.testing import Turn


def test_managers_of_managers_answer_depth_first(case: Case) -> None:
    boss, left, right = case.agents("boss", "left", "right")
    a, b, c = case.agents("a", "b", "c")
    case.says("boss").then(Turn(calls=(send("team left", "L"), send("team right", "R")))).then("${results}")
    case.says("left").then(Turn(calls=(send("a", "LA"), send("b", "LB")))).then("left: ${results}")
    case.says("right").then(Turn(calls=(send("c", "RC"),))).then("right: ${results}")
    for name in ("a", "b", "c"):
        case.says(name).reply(lambda asked: f"<{asked.last_user}>")
    company = managed(
        boss, managed(left, a, b, name="team left"), managed(right, c, name="team right"), name="company"
    )

    assert case.text(company) == "left: <LA>; <LB>; right: <RC>"


def test_a_chain_of_three_managers(case: Case) -> None:
    top, middle, low, worker = case.agents("top", "middle", "low", "worker")
    case.says("top").then(Turn(calls=(send("second", "1"),))).then("top(${results})")
    case.says("middle").then(Turn(calls=(send("third", "2"),))).then("middle(${results})")
    case.says("low").then(Turn(calls=(send("worker", "3"),))).then("low(${results})")
    case.says("worker").reply(lambda asked: asked.last_user)
    third = managed(low, worker, name="third")

    assert (
        case.text(managed(top, managed(middle, third, name="second"), name="first")) == "top(middle(low(3)))"
    )


def test_a_swarm_as_a_worker_hands_off_within_itself_and_remembers_who_owns_it(case: Case) -> None:
    boss, front, expert = case.agents("boss", "front", "expert")
    opening = case.says("boss").then(Turn(calls=(send("desk", "one"),)))
    opening.then(Turn(calls=(send("desk", "two"),))).then(everything_heard)
    case.says("front").then(Turn(calls=(hand_off("expert"),)))
    case.says("expert").reply(lambda asked: " < ".join(users_of(asked)))
    desk = swarm(front, (front, expert), name="desk", description="The desk.")

    assert case.text(managed(boss, desk)) == "one; one < two"
    assert len(case.asked("front")) == 1


def test_a_manager_with_workers_as_a_member_of_a_swarm_can_be_asked_and_take_over(case: Case) -> None:
    first, head, clerk = case.agents("first", "head", "clerk")
    opening = case.says("first").then(Turn(calls=(send("office", "Price?"),)))
    opening.then(Turn(calls=(hand_off("office"),)))

    def heads(asked: object) -> Turn | str:
        results = results_of(asked)  # pyright: ignore[reportArgumentType]
        owner = users_of(asked) == ["Go"]  # pyright: ignore[reportArgumentType]
        done = len(results) > 2 if owner else bool(results)
        return (
            f"{'owner' if owner else 'asked'}: {results[-1]}" if done else Turn(calls=(send("clerk", "P?"),))
        )

    case.says("head").reply(heads)
    case.says("clerk").reply(lambda asked: f"19, asked {len(users_of(asked))} times")
    office = managed(head, clerk, name="office", description="The office.")

    answer = case.text(swarm(first, (first, office)))

    # Two conversations of the office: each has a thread of its own with the clerk.
    assert answer == "owner: 19, asked 1 times"
    nested, owner = case.asked("head")[0], case.asked("head")[-1]
    assert users_of(nested) == ["Price?"]
    assert results_of(owner)[0] == "asked: 19, asked 1 times"


def test_a_swarm_within_a_swarm_may_write_to_its_outer_peers(case: Case) -> None:
    first, front, expert, clerk = case.agents("first", "front", "expert", "clerk")
    case.says("first").then(Turn(calls=(send("desk", "Price?"),))).then("first: ${results}")
    case.says("front").then(Turn(calls=(hand_off("expert"),)))

    def expert_says(asked: object) -> Turn | str:
        results = results_of(asked)  # pyright: ignore[reportArgumentType]
        return f"expert: {results[-1]}" if len(results) > 1 else Turn(calls=(send("clerk", "P?"),))

    case.says("expert").reply(expert_says)
    case.says("clerk").then("19")
    desk = swarm(front, (front, expert), name="desk", description="The desk.")

    assert case.text(swarm(first, (first, desk), (desk, clerk), name="outer")) == "first: expert: 19"


def test_a_swarm_as_manager_speaks_to_the_workers_through_each_of_its_members(case: Case) -> None:
    front, expert, clerk = case.agents("front", "expert", "clerk")
    case.says("front").then(Turn(calls=(hand_off("expert"),)))

    def expert_says(asked: object) -> Turn | str:
        results = results_of(asked)  # pyright: ignore[reportArgumentType]
        return results[-1] if len(results) > 1 else Turn(calls=(send("clerk", "P?"),))

    case.says("expert").reply(expert_says)
    case.says("clerk").then("19")
    lead = swarm(front, (front, expert), name="lead", mode=HandoffMode.ALWAYS)

    assert case.text(managed(lead, clerk)) == "19"


def test_two_groups_may_have_members_of_one_name(case: Case) -> None:
    boss, left, right = case.agents("boss", "left", "right")
    first, second = case.agent("helper", "The first."), case.agent("helper", "The second.")
    case.says("boss").then(Turn(calls=(send("one", "1"), send("two", "2")))).then("${results}")
    for name in ("left", "right"):
        case.says(name).then(Turn(calls=(send("helper", "Who are you?"),))).then("${results}")
    case.says("helper").reply(lambda asked: "first" if "The first." in asked.system else "second")
    company = managed(boss, managed(left, first, name="one"), managed(right, second, name="two"))

    assert case.text(company) == "first; second"


def test_a_specialized_agent_has_the_instructions_and_tools_of_both(case: Case) -> None:
    base = case.agent("base", "Base instructions.")
    special = SpecializedAgent(
        name="special",
        description="Is special.",
        agent=base,
        agent_specialization_parameters=AgentSpecializationParameters(
            name="more", additional_instructions="More instructions.", additional_tools=[ECHO]
        ),
    )
    case.says("base").then("${results}done")
    boss = case.agent("boss")
    case.says("boss").then(Turn(calls=(send("special", "Hi"),))).then("${results}")

    assert case.text(managed(boss, special)) == "done"
    (asked,) = case.asked("base")
    assert "Base instructions." in asked.system
    assert "More instructions." in asked.system
    assert asked.tools == ("echo",)


def test_inputs_reach_every_member_that_names_them(case: Case) -> None:
    boss = case.agent("boss", "Shop {{shop}}.")
    inner, clerk = case.agent("inner"), case.agent("clerk", "City {{ city }}, shop {{shop}}.")
    case.says("boss").then(Turn(calls=(send("team", "Hi"),))).then("${results}")
    case.says("inner").then(Turn(calls=(send("clerk", "Hi"),))).then("${results}")
    case.says("clerk").then("hello")
    group = managed(
        boss,
        managed(inner, clerk, name="team"),
        name="company",
        inputs=[StringProperty(title="city", default="Ulm")],
    )

    assert case.text(group, inputs={"shop": "Ann's"}) == "hello"
    assert "City Ulm, shop Ann's." in case.asked("clerk")[0].system
    assert "Shop Ann's." in case.asked("boss")[0].system
