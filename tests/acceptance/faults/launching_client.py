"""A client that launches many runs, each request under a correlation id of its own.

    python launching_client.py SESSION COUNT

The store is the one of the environment's settings.
"""

from __future__ import annotations

import sys

from retinue.client import SubagentLifecycle

_AT_ONCE = 100


def launch_leaves(lifecycle: SubagentLifecycle, count: int) -> list[str]:
    """Launches all of them, or what is missing of them; the run ids, in order."""
    requests = [
        {"agent": "leaf", "goal": f"leaf {n}", "correlation_id": f"leaf-{n}", "on_duplicate": "return"}
        for n in range(count)
    ]
    batches = (requests[start : start + _AT_ONCE] for start in range(0, count, _AT_ONCE))
    return [handle.subagent_id for batch in batches for handle in lifecycle.launch_many(batch)]


if __name__ == "__main__":
    launch_leaves(SubagentLifecycle(session_id=sys.argv[1]), int(sys.argv[2]))
