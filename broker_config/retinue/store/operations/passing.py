"""News of a tree that are not kept: pieces of what a model writes, and a tool's progress as it comes.

They are published only while somebody listens: a marker beside the tree says so, which the boundary's script
looks at anyway; whoever sets it also tells those that wait for a model now.
"""

from __future__ import annotations

import json
from typing import Any, Final

from retinue.contract import partition_of_run
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.scripts import script

LISTENING_MS: Final = 15_000
"""How long a marker lasts; who listens on renews it three times as often."""
_TOLD_AT_ONCE: Final = 500
"""Live runs of a tree that are told when somebody begins to listen; the others see the marker."""


def listen(tenant: str, root_id: str) -> ScriptCall[int]:
    """Marks a tree as listened to, and tells the owners of runs that wait for a model; how many of these."""
    prefix = keys.tenant_prefix(tenant, partition_of_run(root_id))
    argv = (prefix, root_id, LISTENING_MS, _TOLD_AT_ONCE)
    return ScriptCall(script("listen"), (keys.listened(tenant, root_id),), argv, _first)


def keep_listening(tenant: str, root_id: str) -> CommandCall[None]:
    """Renews a tree's marker."""
    command = ("SET", keys.listened(tenant, root_id), "", "PX", LISTENING_MS)
    return CommandCall(command, lambda _reply: None)


def publish_delta(run: RunKey, root_id: str, *, iteration: int, offset: int, piece: str) -> CommandCall[None]:
    """Tells listeners of a piece of what a run's model writes.

    Args:
        iteration: Of the request.
        offset: Characters of its text before this piece.
    """
    news = {"e": "model.delta", "r": run.run_id, "iteration": iteration, "offset": offset, "text": piece}
    message = json.dumps(news, separators=(",", ":"))
    return CommandCall(("PUBLISH", keys.news_channel(run.tenant, root_id), message), lambda _reply: None)


def told_word(run_id: str) -> str:
    """What a process hears on its channel when somebody begins to listen to a run."""
    return "listened/" + run_id


def _first(reply: Any) -> int:
    return int(reply[1])
