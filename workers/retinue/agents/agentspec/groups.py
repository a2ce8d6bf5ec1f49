"""Groups of Agent Spec documents laid out: every agent at its place, and what it can reach from there.

Composition is static. Whoever may speak for a group within a group holds the edges of both; each edge
knows the group that it belongs to, and at run time `Offer` picks those that the conversation allows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from pyagentspec.component import Component
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.swarm import HandoffMode, Swarm

from retinue.contract import AGENT_NAME_MAX_CHARS

from .place import Edge, Place, description_of

_DEPTH_MAX: Final = 32
_PLACES_MAX: Final = 1_000


class Layout:
    """Lays a document's groups out.

    Args:
        problems: gets a line for each thing that cannot be.
        notes: gets a line for each thing that is doubtful.
    """

    def __init__(self, problems: list[str], notes: list[str]) -> None:
        self._problems = problems
        self._notes = notes
        self._places: list[Place] = []
        self._shared: dict[tuple[int, str], Place] = {}

    def of(self, component: Component, name: str, *, qualified: bool) -> tuple[Place, ...]:
        """Every place of a document, the component's own first, the others from the outside in.

        Args:
            name: what the component is registered as.
            qualified: its members' names all begin with it.
        """
        self._expand(self._add(Place(component)))
        places = sorted(self._places, key=lambda place: place.depth)
        self._name(places, name, qualified=qualified)
        return tuple(places)

    def _add(self, place: Place) -> Place:
        self._places.append(place)
        return place

    def _expand(self, place: Place) -> None:
        if place.depth > _DEPTH_MAX:
            self._problems.append(f"groups are nested deeper than {_DEPTH_MAX}: take {place.title!r} apart")
        elif len(self._places) > _PLACES_MAX:
            self._problems.append(f"the document has more than {_PLACES_MAX} agents: split it")
        elif isinstance(place.component, Swarm):
            self._swarm(place, place.component)
        elif isinstance(place.component, ManagerWorkers):
            self._managed(place, place.component)

    def _swarm(self, place: Place, swarm: Swarm) -> None:
        pairs = self._relationships(swarm)
        members = {id(swarm.first_agent): self._member(place, swarm.first_agent)}
        for component in (end for pair in pairs for end in pair):
            if id(component) not in members:
                members[id(component)] = self._member(place, component)
        place.face = members[id(swarm.first_agent)]
        self._check_names(place, [item.component for item in members.values()])
        mode = HandoffMode(swarm.handoff)
        for sender, recipient in pairs:
            edge = Edge(
                recipient=members[id(recipient)],
                scope=place,
                sender=members[id(sender)],
                sends=mode is not HandoffMode.ALWAYS,
                hands_off=mode is not HandoffMode.NEVER and sender is not recipient,
            )
            edge.sender.edges = (*edge.sender.edges, edge)
        self._check_reach(place, place.face, members.values())
        for member in members.values():
            if mode is not HandoffMode.NEVER or member is place.face:
                member.edges = (*member.edges, *place.edges)
        for member in members.values():
            self._expand(member)

    def _managed(self, place: Place, group: ManagerWorkers) -> None:
        self._check_names(place, [group.group_manager, *group.workers])
        manager = self._member(place, group.group_manager)
        manager.is_registered = False
        distinct = {id(component): component for component in group.workers}
        workers = [self._worker(place, component) for component in distinct.values()]
        edges = [Edge(worker, scope=place, sender=place, sends=True, hands_off=False) for worker in workers]
        manager.edges = (*edges, *place.edges)
        place.face = manager
        self._check_descriptions(place, workers)
        self._expand(manager)

    def _member(self, group: Place, component: Component) -> Place:
        return self._add(
            Place(
                component,
                home=group,
                depth=group.depth + 1,
                groups=(*group.groups, group),
                inputs=group.inputs_within,
            )
        )

    def _worker(self, group: Place, component: Component) -> Place:
        # It takes no part in its manager's conversation, so it is the same in every group that has it.
        inputs = group.inputs_within
        schemas = {name: item.json_schema for name, item in inputs.items()}
        key = (id(component), json.dumps(schemas, sort_keys=True, default=str))
        if key not in self._shared:
            worker = Place(component, home=group, depth=group.depth + 1, inputs=inputs)
            self._shared[key] = self._add(worker)
            self._expand(worker)
        return self._shared[key]

    def _relationships(self, swarm: Swarm) -> list[tuple[Component, Component]]:
        pairs: dict[tuple[int, int], tuple[Component, Component]] = {}
        for sender, recipient in swarm.relationships:
            key = (id(sender), id(recipient))
            what = f"relationship {sender.name!r} -> {recipient.name!r} of swarm {swarm.name!r}"
            if key in pairs:
                self._problems.append(f"{what} is listed twice: take one out")
            elif sender is recipient:
                self._notes.append(f"{what} leads back: the agent can send a message to itself, once")
            pairs[key] = (sender, recipient)
        if not any(end is swarm.first_agent for pair in pairs.values() for end in pair):
            self._problems.append(
                f"first agent {swarm.first_agent.name!r} of swarm {swarm.name!r} is in no relationship: "
                "add one that starts from it"
            )
        return list(pairs.values())

    def _check_names(self, group: Place, members: Sequence[Component]) -> None:
        names = [member.name for member in members]
        for member in members:
            fault = name_fault(member.name)
            if fault:
                self._problems.append(f"{type(member).__name__} in {group.title!r}: {fault}")
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._problems.append(f"two members of {group.title!r} are named {name!r}: rename one")

    def _check_reach(self, group: Place, first: Place, members: Iterable[Place]) -> None:
        reached, waiting = {first}, [first]
        while waiting:
            new = {edge.recipient for edge in waiting.pop().edges} - reached
            reached |= new
            waiting.extend(new)
        everybody = list(members)
        for member in everybody:
            if member not in reached:
                self._notes.append(
                    f"{member.title!r} of {group.title!r} cannot be reached from the first agent, "
                    f"{first.title!r}"
                )
        recipients = {edge.recipient for member in everybody for edge in member.edges}
        self._check_descriptions(group, [member for member in everybody if member in recipients])

    def _check_descriptions(self, group: Place, recipients: Iterable[Place]) -> None:
        self._notes.extend(
            f"{place.title!r} of {group.title!r} has no description: the others know it by its name alone"
            for place in recipients
            if description_of(place.component) is None
        )

    def _name(self, places: Sequence[Place], name: str, *, qualified: bool) -> None:
        places[0].name = name
        taken = {name}
        for place in places[1:]:
            group = place.home or places[0]
            within = f"{group.name}/{place.title}"
            if not place.is_registered and not place.is_group:
                place.name = group.name
                continue
            place.name = within if qualified or place.title in taken else place.title
            fault = name_fault(place.name)
            if place.name in taken:
                self._problems.append(f"two agents would be registered as {place.name!r}: rename one")
            elif fault and not name_fault(place.title):
                self._problems.append(
                    f"another agent is named {place.title!r}, and {fault}: rename {place.title!r} of "
                    f"{group.title!r}"
                )
            taken.add(place.name)


def name_fault(name: str) -> str | None:
    """What keeps a name from being an agent's, with the mend; None = nothing."""
    if not name.strip():
        return "it has no name: give it one"
    if len(name) > AGENT_NAME_MAX_CHARS or not name.isprintable() or name != name.strip():
        return f"{name!r:.80} is no agent name: use 1 to {AGENT_NAME_MAX_CHARS} printable characters"
    return None
