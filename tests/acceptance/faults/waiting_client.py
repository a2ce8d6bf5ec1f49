"""A client that launches a run and waits for it, then launches another; it prints what it is told.

    python waiting_client.py SESSION GOAL SECONDS

The store is the one of the environment's settings; SECONDS is the longest time to wait.
"""

from __future__ import annotations

import sys

from retinue.client import SubagentLifecycle
from retinue.contract import SubagentLifecycleError


def wait_for_run(lifecycle: SubagentLifecycle, goal: str, seconds: float) -> None:
    """Launches and waits; an error of the wait is told, not raised."""
    handle = lifecycle.launch(agent="support", goal=goal)
    _tell("launched", handle.subagent_id)
    try:
        ended = lifecycle.wait(handle, timeout_seconds=seconds)
    except SubagentLifecycleError as error:
        _tell("wait", error.code)
    else:
        _tell("wait", ended.state, "timed_out" if ended.timed_out else "in time")


def launch_another(lifecycle: SubagentLifecycle, goal: str) -> None:
    """Launches; an error is told."""
    try:
        _tell("again", lifecycle.launch(agent="support", goal=goal).subagent_id)
    except SubagentLifecycleError as error:
        _tell("again", error.code)


def _tell(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    facade = SubagentLifecycle(session_id=sys.argv[1])
    wait_for_run(facade, sys.argv[2], float(sys.argv[3]))
    launch_another(facade, sys.argv[2])
