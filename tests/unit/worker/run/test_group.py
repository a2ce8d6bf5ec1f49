"""Threads, circles and counts of messages between the members of groups, nested ones among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retinue.agents.effective.effective import EffectiveSpec
from retinue.agents.effective.grants import Grant
from retinue.agents.registry.entry import RosterEntry
from retinue.client.launching.ticket import GroupPlace, Ticket
from retinue.contract import Role, SubagentLaunchRequest, new_run_id
from retinue.store.call import RunKey
from retinue.store.record import Record
from retinue.store.replies import Fence
from retinue.worker.run.group import pair_thread, place_below, waits_for
from retinue.worker.run.held import HeldRun

ROOT = "sa-root-thread"


def run(
    agent: str, *groups: str, place: GroupPlace | None = None, thread: str = ROOT, run_id: str | None = None
) -> HeldRun:
    """A run of a member of these groups, outermost first."""
    key = RunKey("_", run_id or new_run_id(3))
    return HeldRun(
        key=key,
        fence=Fence(1, "token"),
        record=Record({"th": thread, "sess": "s"}),
        ticket=Ticket(SubagentLaunchRequest.parse(goal="g"), Role.LEAF, group=place),
        spec=EffectiveSpec(agent=agent, max_iterations=5, groups=groups),
        spec_is_pinned=True,
        grant=Grant(),
        thread=[],
        journal={},
        iteration=1,
        deadline=None,
    )


def to(name: str, *, sender: str, scope: str, **fields: Any) -> RosterEntry:
    return RosterEntry(name=name, sender=sender, scope=scope, **fields)


def below(sender: HeldRun, recipient: RosterEntry, *groups: str) -> HeldRun:
    """The recipient's run of a message."""
    thread = pair_thread(sender, recipient)
    return run(recipient.registered, *groups, place=place_below(sender, recipient), thread=thread)


def test_a_thread_is_of_an_ordered_pair_and_of_one_conversation() -> None:
    owner = run("a", "team")
    first = pair_thread(owner, to("b", sender="a", scope="team"))

    assert pair_thread(run("a", "team"), to("b", sender="a", scope="team")) == first, "over later turns, too"
    others = {
        pair_thread(owner, to("c", sender="a", scope="team")),
        pair_thread(run("b", "team"), to("a", sender="b", scope="team")),
        pair_thread(run("a", "team", thread="sa-other"), to("b", sender="a", scope="team")),
    }
    assert len(others | {first}) == 4
    assert len(first) == 32


def test_a_pair_deep_in_a_conversation_has_the_same_thread_as_after_a_handoff() -> None:
    asked = below(run("a", "team"), to("b", sender="a", scope="team"), "team")
    edge = to("c", sender="b", scope="team")

    assert pair_thread(asked, edge) == pair_thread(run("b", "team"), edge)


def test_only_the_immediate_caller_waits_for_an_answer() -> None:
    owner = run("a", "team")
    b = below(owner, to("b", sender="a", scope="team"), "team")
    c = below(b, to("c", sender="b", scope="team"), "team")

    assert not waits_for(owner, to("b", sender="a", scope="team"))
    assert waits_for(b, to("a", sender="b", scope="team"))
    assert waits_for(c, to("b", sender="c", scope="team"))
    assert not waits_for(c, to("a", sender="c", scope="team"))


def test_depth_and_the_record_that_counts_are_those_of_the_outermost_conversation() -> None:
    owner = run("a", "team")
    b = below(owner, to("b", sender="a", scope="team"), "team")
    c = below(b, to("c", sender="b", scope="team"), "team")

    places = [b.ticket.group, c.ticket.group]
    assert [place.depth for place in places if place] == [1, 2]
    assert {place.counted_on for place in places if place} == {owner.key.run_id}


def test_a_nested_group_speaks_as_one_member_whoever_owns_it() -> None:
    first = run("first", "outer")
    desk = below(first, to("desk", sender="first", scope="outer", agent="desk"), "outer", "desk")
    # Handed over within the desk: the edges of the new owner name the desk as their sender all the same.
    expert = replace(desk, spec=desk.spec.model_copy(update={"agent": "expert"}))
    peer = to("clerk", sender="desk", scope="outer")

    assert pair_thread(desk, peer) == pair_thread(expert, peer)
    clerk = below(expert, peer, "outer")
    assert waits_for(clerk, to("desk", sender="clerk", scope="outer"))
    assert clerk.ticket.group is not None
    assert clerk.ticket.group.conversations == {"outer": ROOT}


def test_a_nested_groups_own_conversation_is_the_thread_with_its_caller() -> None:
    first = run("first", "outer")
    desk = below(first, to("desk", sender="first", scope="outer"), "outer", "desk")
    inner = to("expert", sender="front", scope="desk")

    expert = below(desk, inner, "outer", "desk")

    assert expert.ticket.group is not None
    assert expert.ticket.group.conversations == {"outer": ROOT, "desk": desk.record.thread_id}
    peer = to("front", sender="expert", scope="desk")
    assert pair_thread(expert, peer) != pair_thread(
        below(first, to("x", sender="first", scope="outer")), peer
    )


def test_a_ticket_keeps_the_place_and_the_conversation() -> None:
    place = GroupPlace({"outer": "t1"}, caller="a", depth=2, counted_on="sa-1")
    request = SubagentLaunchRequest.parse(goal="g")
    ticket = Ticket(request, Role.LEAF, group=place, thread="sa-2")

    assert Ticket.from_json(ticket.to_json()) == ticket
