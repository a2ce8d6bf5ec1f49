"""What the runs of a session have used, summed up by agent."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from retinue.client.reading.tree import SubagentNode
from retinue.contract import Usage
from retinue.store.operations.reading import list_roots

if TYPE_CHECKING:
    from retinue.client import AsyncSubagentLifecycle
    from retinue.client.dispatch.async_connections import AsyncConnections

MOST_ROOTS: Final = 1_000
"""Root runs of a session that are looked at; the oldest are left out."""

_AT_ONCE: Final = 20
"""Trees that are read at a time."""


@dataclass(slots=True)
class SessionUsage:
    """A sum that grows run by run.

    Args:
        session_id: Whose runs.
        agent: Only runs with this active agent count. None = all.
        left_out: Root runs that were not looked at.
    """

    session_id: str
    agent: str | None = None
    left_out: int = 0
    runs: int = 0
    unknown: int = 0
    by_agent: defaultdict[str, Usage] = field(
        default_factory=lambda: defaultdict[str, Usage](lambda: Usage(cost_usd=0.0))
    )

    def add(self, nodes: Iterable[SubagentNode]) -> None:
        """Adds the runs of a tree. A cost is unknown as soon as that of one run is."""
        for node in nodes:
            if self.agent not in (None, node.agent):
                continue
            self.runs += 1
            self.unknown += node.usage is None
            self.by_agent[node.agent] += node.usage or Usage()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        total = sum(self.by_agent.values(), Usage(cost_usd=0.0))
        return {
            "session_id": self.session_id,
            "total": total.to_dict(),
            "by_agent": {name: self.by_agent[name].to_dict() for name in sorted(self.by_agent)},
            "runs": self.runs,
            "unknown": self.unknown,
            "left_out": self.left_out,
        }


async def read_session_usage(
    connections: AsyncConnections,
    lifecycle: AsyncSubagentLifecycle,
    tenant: str,
    session_id: str,
    agent: str | None = None,
) -> SessionUsage:
    """Sums up the runs that are kept.

    Args:
        lifecycle: May act on the session.
        agent: Only runs with this active agent count. None = all.

    Raises:
        SubagentLifecycleError: STORE_UNAVAILABLE.
    """
    used = SessionUsage(session_id, agent)
    roots: list[str] = []
    place: int | None = 0
    while place is not None:
        part = await connections.store.run(list_roots(tenant, session_id, place=place, most=500))
        roots += part.run_ids
        place = part.next_place
    used.left_out = max(0, len(roots) - MOST_ROOTS)
    for start in range(0, min(len(roots), MOST_ROOTS), _AT_ONCE):
        chunk = roots[start : min(start + _AT_ONCE, MOST_ROOTS)]
        for nodes in await asyncio.gather(*map(lifecycle.tree, chunk)):
            used.add(nodes)
    return used
