"""Where the runs of a list come from: a session, a tree, or all that is live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from retinue.client import AsyncSubagentLifecycle
from retinue.client.reading.live_runs import read_live
from retinue.contract import TERMINAL_STATES, SubagentLifecycleError, validate_session
from retinue.http.access import unknown_run
from retinue.http.run_pages import Entry, Runs
from retinue.http.service import Service


async def runs_of(service: Service, tenant: str, *, session: str | None, tree: str | None) -> Runs:
    """The runs that a caller asks for.

    Args:
        session: Of this session. With neither: all live runs of the tenant.
        tree: This run's id: it and all below it.

    Raises:
        SubagentLifecycleError: Both are given, or session breaks its rules.
        Problem: UNKNOWN_HANDLE: there is no such run.
    """
    lifecycle = service.operator(tenant)
    if session is not None and tree is not None:
        raise SubagentLifecycleError(
            "is given along with session", field="tree", limit="one of the two", mend="leave one of them out"
        )
    if session is not None:
        return SessionRuns(lifecycle, validate_session(session, field="session"))
    if tree is not None:
        nodes = await lifecycle.tree(tree)
        if not nodes:
            raise unknown_run()
        return ListedRuns(lifecycle, [node.run_id for node in nodes])
    live = await read_live(service.connections(), tenant)
    # The ended runs among them only hold the tree together.
    return ListedRuns(lifecycle, [run.run_id for run in live.runs if run.state not in TERMINAL_STATES])


class SessionRuns:
    """The root runs of a session, newest first."""

    def __init__(self, lifecycle: AsyncSubagentLifecycle, session_id: str) -> None:
        self._lifecycle = lifecycle
        self._session_id = session_id

    async def read(self, offset: int, count: int) -> Sequence[Entry]:
        """As `Runs` has it."""
        found = await self._lifecycle.list(session_id=self._session_id, offset=offset, limit=count)
        return [(run.handle.subagent_id, run) for run in found if run.handle is not None]


class ListedRuns:
    """Runs whose ids are known, in their order."""

    def __init__(self, lifecycle: AsyncSubagentLifecycle, run_ids: Sequence[str]) -> None:
        self._lifecycle = lifecycle
        self._run_ids = run_ids

    async def read(self, offset: int, count: int) -> Sequence[Entry]:
        """As `Runs` has it."""
        part = self._run_ids[offset : offset + count]
        return await asyncio.gather(*map(self._entry, part))

    async def _entry(self, run_id: str) -> Entry:
        handle = await self._lifecycle.handle(run_id)
        return run_id, None if handle is None else await self._lifecycle.status(handle)
