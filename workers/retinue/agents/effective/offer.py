"""What an agent of a group may do in a conversation: that depends on whose conversation it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.registry.entry import AgentEntry


@dataclass(frozen=True, slots=True)
class Offer:
    """The agents that a run's model can reach.

    Args:
        roster: whom it may delegate to.
        handoffs: whom it may hand the conversation over to.
    """

    roster: tuple[RosterEntry, ...]
    handoffs: tuple[RosterEntry, ...]

    @classmethod
    def of(cls, entry: AgentEntry, owned: str | None) -> Self:
        """What the agent is offered in a conversation.

        Args:
            entry: the agent, with what it could be offered anywhere.
            owned: the group whose conversation it is. None = it was asked by name, as one member by another.
        """
        groups = entry.groups
        # A member that was only asked owns nothing: as its answer is awaited, it cannot give the work away.
        own = groups.index(owned) if owned is not None and owned in groups else None

        def may_hand_off(edge: RosterEntry) -> bool:
            return own is not None and edge.scope in groups[own:]

        def may_send(edge: RosterEntry) -> bool:
            # To a group's own members, and, on behalf of the group, to its peers in the next group around it.
            return edge.scope in groups[-1:] or (own is not None and edge.scope in groups[max(own - 1, 0) :])

        return cls(
            roster=tuple(edge for edge in entry.roster if edge.scope is None or may_send(edge)),
            handoffs=tuple(edge for edge in entry.handoffs if may_hand_off(edge)),
        )
