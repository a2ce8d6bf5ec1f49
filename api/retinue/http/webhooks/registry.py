"""A tenant's endpoints: made, looked at, changed and removed."""

from __future__ import annotations

import binascii
import json
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from retinue.broker.catalogue import advertise_webhooks, withdraw_webhooks
from retinue.contract import ErrorCode, SubagentLifecycleError
from retinue.http.problems import Problem
from retinue.store.operations import deliveries, webhooks
from retinue.store.operations.deliveries import Delivery, NotQueued
from retinue.store.operations.webhooks import PER_RUN, Endpoint

if TYPE_CHECKING:
    from retinue.http.service import Service

_ID: Final = re.compile(r"wh_[0-9a-f]{24}|per-run")
_DELIVERY_ID: Final = re.compile(r"msg_[0-9a-f]{40}")
_PER_RUN: Final = Endpoint(PER_RUN, None, "webhooks that launches name", None)


class Registry:
    """The endpoints of one tenant.

    Args:
        service: Of the process.
        tenant: Whose.
    """

    def __init__(self, service: Service, tenant: str) -> None:
        self._service = service
        self._store = service.connections().store
        self._tenant = tenant

    async def add(self, url: str, description: str) -> tuple[Endpoint, str]:
        """A new endpoint, with its secret.

        Raises:
            Problem: INVALID_REQUEST: nothing may be posted there. CAPACITY_REACHED: there are enough.
        """
        await self._service.webhook_targets.check(url, field="url", must_resolve=True)
        webhook_id, secret = webhooks.new_webhook_id(), webhooks.new_secret()
        most = self._service.settings.http.max_webhooks
        call = webhooks.add_endpoint(
            self._tenant, webhook_id, url=url, description=description, secret=secret, most=most
        )
        created_at = await self._store.run(call)
        if created_at is None:
            raise Problem(
                ErrorCode.CAPACITY_REACHED,
                429,
                "the tenant has as many webhooks as it may",
                limit=f"http.max_webhooks = {most:,}",
                mend="delete one that is not needed any more",
            )
        await self._store.run(advertise_webhooks([self._tenant], time.time()))
        # What this process launches next is to be told there already.
        await self._service.connections().catalogue.snapshot(fresh=True)
        return Endpoint(webhook_id, url, description, created_at), secret

    async def all(self) -> list[Endpoint]:
        """The tenant's endpoints, oldest first."""
        return await self._store.run(webhooks.read_endpoints(self._tenant))

    async def one(self, webhook_id: str) -> Endpoint:
        """One of them, or `per-run`.

        Raises:
            Problem: NOT_FOUND: there is none of that id.
        """
        if _ID.fullmatch(webhook_id) is None:
            raise _unknown("webhook")
        [found] = await self._store.run(webhooks.read_endpoint(self._tenant, webhook_id)) or [None]
        if webhook_id == PER_RUN:
            until = found.former_signs_until if found else None
            return Endpoint(PER_RUN, None, _PER_RUN.description, None, former_signs_until=until)
        if found is None:
            raise _unknown("webhook")
        return found

    async def remove(self, webhook_id: str) -> None:
        """Deletes one; what it has not been told yet, it is not told any more.

        Raises:
            Problem: NOT_FOUND, or INVALID_REQUEST: it is `per-run`.
        """
        if (await self.one(webhook_id)).webhook_id == PER_RUN:
            raise Problem(
                ErrorCode.INVALID_REQUEST,
                422,
                "cannot be deleted: it stands for the webhooks that launches name",
                field="webhook_id",
                mend="launch without `webhook`",
            )
        while (left := await self._store.run(webhooks.drop_endpoint(self._tenant, webhook_id))) is None:
            pass
        if left == 0:
            await self._store.run(withdraw_webhooks(self._tenant))

    async def rotate(self, webhook_id: str) -> tuple[str, float | None]:
        """Another secret, and until when the one before signs too (epoch seconds; None = there was none).

        Raises:
            Problem: NOT_FOUND: there is no such endpoint.
        """
        await self.one(webhook_id)
        secret = webhooks.new_secret()
        until = await self._store.run(webhooks.rotate_secret(self._tenant, webhook_id, secret))
        if until is None:
            raise _unknown("webhook")
        return secret, until or None

    async def enable(self, webhook_id: str) -> Endpoint:
        """Has an endpoint told again that was disabled.

        Raises:
            Problem: NOT_FOUND: there is no such endpoint.
        """
        if (await self.one(webhook_id)).webhook_id != PER_RUN:
            await self._store.run(webhooks.enable(self._tenant, webhook_id))
        return await self.one(webhook_id)

    async def page(
        self, webhook_id: str, *, cursor: str | None, most: int
    ) -> tuple[list[Delivery], str | None]:
        """Deliveries, the last queued first, and where the next page begins (None = nowhere).

        Raises:
            Problem: NOT_FOUND: there is no such endpoint.
            SubagentLifecycleError: The cursor is none.
        """
        after = _read_cursor(cursor)
        await self.one(webhook_id)
        call = deliveries.read_page(self._tenant, webhook_id, after=after, most=most + 1)
        found = await self._store.run(call)
        page = found[:most]
        return page, _cursor_after(page) if len(found) > most else None

    async def redeliver(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Makes a delivery due at once.

        Raises:
            Problem: NOT_FOUND; or WEBHOOK_DISABLED: its endpoint is not told any more.
        """
        await self.one(webhook_id)
        if _DELIVERY_ID.fullmatch(delivery_id) is None:
            raise _unknown("delivery")
        match await self._store.run(deliveries.queue_again(self._tenant, webhook_id, delivery_id)):
            case NotQueued.UNKNOWN:
                raise _unknown("delivery")
            case NotQueued.OFF:
                raise Problem(
                    "WEBHOOK_DISABLED",
                    409,
                    "the endpoint is disabled",
                    field="webhook_id",
                    mend=f"POST /v1/webhooks/{webhook_id}/enable first",
                )
            case Delivery() as queued:
                return queued


def _unknown(what: str) -> Problem:
    return Problem("NOT_FOUND", 404, f"there is no such {what}, any more", field=f"{what}_id")


def _cursor_after(page: Sequence[Delivery]) -> str:
    place = json.dumps([page[-1].queued_ms, page[-1].delivery_id])
    return urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _read_cursor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    try:
        value = json.loads(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        value = None
    match cast("object", value):
        case [int() as queued_ms, str() as last] if 0 <= queued_ms < 2**53 and _DELIVERY_ID.fullmatch(last):
            return queued_ms, last
        case _:
            raise SubagentLifecycleError(
                "is no place in this list",
                field="cursor",
                limit="next_cursor of a page of the same list",
                mend="leave it out to begin anew",
            )
