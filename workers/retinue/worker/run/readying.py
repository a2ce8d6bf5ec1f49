"""What a run needs before its first boundary that only other servers can tell: the tools of MCP servers."""

from __future__ import annotations

import asyncio

from retinue.contract import ErrorClassification, SubagentState
from retinue.worker.network.mcp_listing import McpListingError
from retinue.worker.process.hints import may_ask
from retinue.worker.run.cut import AT_ONCE_S, let_go, until_done
from retinue.worker.run.ending import cut_short
from retinue.worker.run.held import HeldRun
from retinue.worker.run.outcome import Fenced, Finish
from retinue.worker.services import Services


async def make_ready(services: Services, run: HeldRun) -> Finish | Fenced | None:
    """Completes a spec that is not pinned yet; how the run ends if that cannot be, else None.

    Raises:
        SettingsError: This worker's settings lack what a server needs.
    """
    if run.spec_is_pinned or not any(tool.mcp is not None for tool in run.spec.tools):
        return None

    async def go_on() -> bool:
        return not run.is_lost and await may_ask(services.store, run.key)

    work = asyncio.ensure_future(services.network.completed(run.spec, go_on=go_on))
    try:
        cut = await until_done(services, run, [work], grace_s=0)
        if cut is not None:
            return cut_short(cut, run)
        run.spec = work.result()
    except McpListingError as fault:
        return Finish(SubagentState.FAILED, ErrorClassification.TOOL_ERROR, message=str(fault))
    finally:
        await let_go([work], within_s=AT_ONCE_S)
    return None
