"""What a run is asked to do, in few characters: whether a child would do what a run above it is doing."""

from __future__ import annotations

import hashlib
import unicodedata

from retinue.contract import SubagentLaunchRequest, canonical_json

_PART_CHARS = 10


def work_digest(agent: str, request: SubagentLaunchRequest) -> str:
    """The digest that the store compares a launch by with the runs above it.

    A model that passes its own task on does so to the letter, but for case, blanks and width of characters.

    Args:
        agent: The registered name of the agent that is to run.
        request: Its goal, and what is given along with it: context and inputs.

    Returns:
        Three parts of 10 hex characters: of agent and goal, of the goal, and of what is given along, which is
        left out where that is nothing.
    """
    goal = " ".join(unicodedata.normalize("NFKC", request.goal).casefold().split())
    given = [request.context or None, dict(request.inputs) if request.inputs else None]
    along = _part(canonical_json(given)) if any(given) else ""
    return _part(f"{agent}\0{goal}") + _part(goal) + along


def _part(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_PART_CHARS]
