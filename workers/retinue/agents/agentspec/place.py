"""The places of an Agent Spec document: who stands where, and what can be reached from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyagentspec.component import Component
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import Property
from pyagentspec.specialized_agent import SpecializedAgent
from pyagentspec.swarm import Swarm


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """A way from one member of a group to another.

    Args:
        recipient: whom it leads to.
        scope: the group that it belongs to.
        sender: the member from which it starts.
        sends: messages may go along it.
        hands_off: conversations may.
    """

    recipient: Place
    scope: Place
    sender: Place
    sends: bool
    hands_off: bool


@dataclass(slots=True, eq=False)
class Place:
    """An agent or group where it stands in a document.

    Args:
        component: what stands there.
        home: the group around it. None = it is what the document is about.
        depth: groups around it.
        groups: those in whose conversations it takes part, outermost first.
        edges: what it can reach; of a group, what whoever speaks for it can reach around it.
        inputs: those that the groups around it declare, by name; an inner group's come first.
        face: of a group, the member as which it acts.
        is_registered: it has a name of its own. A manager acts under the name of its group.
        name: what it is registered as, once `named`.
    """

    component: Component
    home: Place | None = None
    depth: int = 0
    groups: tuple[Place, ...] = ()
    edges: tuple[Edge, ...] = ()
    inputs: Mapping[str, Property] = field(default_factory=dict[str, Property])
    face: Place | None = None
    is_registered: bool = True
    name: str = ""

    @property
    def title(self) -> str:
        """What models call it."""
        return self.component.name

    @property
    def is_group(self) -> bool:
        """Whether a group stands there."""
        return isinstance(self.component, Swarm | ManagerWorkers)

    @property
    def speaker(self) -> Place:
        """The agent as which it acts, down through groups that begin with groups."""
        return self if self.face is None else self.face.speaker

    @property
    def member(self) -> Place:
        """The innermost place on that way that has a name of its own."""
        inner = None if self.face is None else self.face.member
        return inner if inner is not None and inner.is_registered else self

    @property
    def inputs_within(self) -> dict[str, Property]:
        """Of a group: the inputs that it and the groups around it declare."""
        component = self.component
        declared = (component.inputs or []) if isinstance(component, Swarm | ManagerWorkers) else []
        return {**self.inputs, **{item.title: item for item in declared}}


def description_of(component: Component) -> str | None:
    """The component's description, or else that of the agent as which it acts."""
    own = (component.description or "").strip()
    if own:
        return own
    if isinstance(component, Swarm):
        return description_of(component.first_agent)
    if isinstance(component, ManagerWorkers):
        return description_of(component.group_manager)
    return description_of(component.agent) if isinstance(component, SpecializedAgent) else None
