"""The webhooks that launches name: refused at once where nothing may be posted to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from retinue.contract import SubagentLaunchRequest

if TYPE_CHECKING:
    from retinue.http.service import Service


async def check_webhooks(service: Service, *requests: SubagentLaunchRequest) -> None:
    """Refuses requests whose webhook nothing may be posted to, as far as that can be told now.

    A host that has no address just now is let pass: it is looked at again before each attempt.

    Raises:
        Problem: INVALID_REQUEST.
    """
    fields = {
        request.webhook.url: "webhook.url" if len(requests) == 1 else f"requests[{at}].webhook.url"
        for at, request in enumerate(requests)
        if request.webhook is not None
    }
    checks = (
        service.webhook_targets.check(url, field=field, must_resolve=False) for url, field in fields.items()
    )
    await asyncio.gather(*checks)
