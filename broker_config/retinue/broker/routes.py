"""Which queue and which list on the broker a wake-up goes to.

Pure names: whoever pushes a wake-up (the launch script, a worker, the reaper) and whoever pops it must
agree on them to the byte.
"""

from __future__ import annotations

from bisect import bisect
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from retinue.broker.settings import Settings

PRIORITY_STEPS: Final = (0, 3, 6, 9)
"""kombu's priorities, a list on the broker for each; 0 is served first."""

RESUME_PRIORITY: Final = 0
"""Of a run that was under way: work begun goes before work not begun."""

PRIORITY_SEPARATOR: Final = "\x06\x16"
PRIVATE_QUEUE_PREFIX: Final = "retinue.worker."

APPLICATION_QUEUE: Final = "celery"
"""Celery's default queue, and so that of an application which names none."""


def queue_for(agent_name: str, settings: Settings, declared_queue: str | None = None) -> str:
    """The queue that an agent's runs wait in.

    Args:
        agent_name: The agent.
        settings: Its `routes` are asked first: the exact name, then the first pattern that matches.
        declared_queue: What the agent's own declaration names; None = nothing.

    Returns:
        The queue of the route, else the declared one, else the settings' default.
    """
    routes = settings.routes
    if agent_name in routes:
        return routes[agent_name]
    for pattern, queue in routes.items():
        if fnmatchcase(agent_name, pattern):
            return queue
    return declared_queue or settings.queue


def queue_key(queue: str, priority: int, global_keyprefix: str = "") -> str:
    """The list on the broker that holds a queue's wake-ups of one priority.

    Args:
        queue: The queue.
        priority: 0 (first) to 9 (last); rounded down to a step, as kombu does.
        global_keyprefix: kombu's prefix of every key; empty = none.
    """
    step = PRIORITY_STEPS[max(bisect(PRIORITY_STEPS, priority) - 1, 0)]
    suffix = f"{PRIORITY_SEPARATOR}{step}" if step else ""
    return f"{global_keyprefix}{queue}{suffix}"


def queue_keys(queue: str, *, global_keyprefix: str = "") -> tuple[str, ...]:
    """The lists of a queue, the first to be served first; their lengths add up to the queue's."""
    return tuple(queue_key(queue, step, global_keyprefix) for step in PRIORITY_STEPS)


def private_queue(process_id: str) -> str:
    """The queue that only one worker process serves."""
    return PRIVATE_QUEUE_PREFIX + process_id
