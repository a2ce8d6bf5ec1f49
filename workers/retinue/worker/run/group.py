"""A run's place in a group: which conversation a message belongs to, and how far a group may go."""

from __future__ import annotations

import hashlib

from retinue.agents.registry.entry import RosterEntry
from retinue.client.launching.ticket import GroupPlace
from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Finish

_LIMITS = {
    "max_rounds": "messages among the members of one group",
    "max_handoffs": "handoffs of one run",
    "max_depth": "messages in a row that wait for each other",
}


def pair_thread(run: HeldRun, recipient: RosterEntry) -> str:
    """The thread of a sender and a recipient: one for each ordered pair, for the life of the conversation."""
    pair = f"{_conversation(run, recipient)}\0{_sender(run, recipient)}\0{recipient.registered}"
    return "t" + hashlib.sha256(pair.encode()).hexdigest()[:31]


def waits_for(run: HeldRun, recipient: RosterEntry) -> bool:
    """Whether the recipient is the member that this run's answer is for."""
    place = run.ticket.group
    return place is not None and place.caller == recipient.registered


def place_below(run: HeldRun, recipient: RosterEntry) -> GroupPlace:
    """Where the recipient of a message stands."""
    place = run.ticket.group
    return GroupPlace(
        conversations={**_around(run, recipient), recipient.scope or "": _conversation(run, recipient)},
        caller=_sender(run, recipient),
        depth=place.depth + 1 if place else 1,
        counted_on=place.counted_on if place else run.key.run_id,
    )


def beyond_limit(run: HeldRun, name: str, limit: int) -> Finish:
    """How a run ends that would go beyond a limit of its group.

    Args:
        name: Of the setting in [groups].
        limit: Its value.
    """
    message = f"the limit of {limit} {_LIMITS[name]} was reached (groups.{name})"
    return Finish(SubagentState.INTERRUPTED, ErrorClassification.MAX_ITERATIONS, run.partial, message)


def _conversation(run: HeldRun, recipient: RosterEntry) -> str:
    """The thread of the conversation in which a message is sent: the run's own, or one around it."""
    place = run.ticket.group
    around = place.conversations if place else {}
    return around.get(recipient.scope or "", run.record.thread_id)


def _around(run: HeldRun, recipient: RosterEntry) -> dict[str, str]:
    """The conversations around the one in which a message is sent."""
    place, groups = run.ticket.group, run.spec.groups
    if place is None or recipient.scope not in groups:
        return {}
    outer = groups[: groups.index(recipient.scope)]
    return {group: thread for group, thread in place.conversations.items() if group in outer}


def _sender(run: HeldRun, recipient: RosterEntry) -> str:
    return recipient.sender or run.spec.agent
