"""Endpoints of webhooks: where a tenant is told of its runs' ends, and the secrets that sign what it is told.

A secret leaves the store only for whoever signs, and once for its owner, who is given it when it is made.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from secrets import token_bytes, token_hex
from typing import Any, Final

from retinue.store import keys
from retinue.store.call import CommandCall, ScriptCall, text, texts, unexpected
from retinue.store.scripts import script

PER_RUN: Final = "per-run"
"""The endpoint that stands for the webhooks that launches name: their log, and the secret that signs them."""

FORMER_SIGNS_S: Final = 24 * 3600
"""How long the secret before the last rotation signs too, in seconds."""

_SECRET_BYTES: Final = 32
_DROPPED_AT_ONCE: Final = 500


class Disabled(StrEnum):
    """Why an endpoint is not told any more."""

    GONE = "gone"  # it answered 410


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a tenant is told.

    Args:
        webhook_id: Its id, or PER_RUN.
        url: None = each run's own.
        description: Its owner's words.
        created_at: Epoch seconds; None = it is PER_RUN.
        disabled: Why it is not told any more; None = it is.
        former_signs_until: Until when the secret before the last rotation signs too, in epoch seconds.
            None = there was none.
    """

    webhook_id: str
    url: str | None
    description: str
    created_at: float | None
    disabled: Disabled | None = None
    former_signs_until: float | None = None


@dataclass(frozen=True, slots=True)
class Secrets:
    """What signs an endpoint's deliveries.

    Args:
        current: As `new_secret` makes them.
        former: The one before. None = there was none.
        former_until_ms: Until when that one signs too, in epoch ms.
    """

    current: str = field(repr=False)
    former: str | None = field(default=None, repr=False)
    former_until_ms: int = 0

    def signing(self, now_ms: float) -> list[str]:
        """Those that sign now, the current one first."""
        if self.former is None or now_ms >= self.former_until_ms:
            return [self.current]
        return [self.current, self.former]


def new_webhook_id() -> str:
    """An id for an endpoint."""
    return f"wh_{token_hex(12)}"


def new_secret() -> str:
    """A signing secret, in the form of Standard Webhooks: `whsec_` and base64 of 32 random bytes."""
    return "whsec_" + b64encode(token_bytes(_SECRET_BYTES)).decode("ascii")


def add_endpoint(
    tenant: str, webhook_id: str, *, url: str, description: str, secret: str, most: int
) -> ScriptCall[float | None]:
    """Registers an endpoint; a repeat changes nothing.

    Args:
        most: Endpoints of a tenant.

    Returns:
        A call that answers when it was created, in epoch seconds; None = the tenant has as many as it may.
    """

    def parse(reply: Any) -> float | None:
        match text(reply[0]):
            case "OK":
                return int(float(text(reply[1]))) / 1000
            case "FULL":
                return None
            case _:
                raise unexpected("add_webhook", reply)

    argv = (keys.WEBHOOKS, tenant, webhook_id, url, description, secret, most)
    return ScriptCall(script("add_webhook"), (keys.webhook_endpoints(tenant),), argv, parse)


def drop_endpoint(tenant: str, webhook_id: str) -> ScriptCall[int | None]:
    """Deletes an endpoint and a part of its deliveries; to be repeated until it answers a number.

    Returns:
        A call that answers how many endpoints the tenant has left; None = more deliveries are to be deleted.
    """

    def parse(reply: Any) -> int | None:
        match text(reply[0]):
            case "GONE":
                return int(reply[1])
            case "MORE":
                return None
            case _:
                raise unexpected("drop_webhook", reply)

    argv = (keys.WEBHOOKS, tenant, webhook_id, _DROPPED_AT_ONCE)
    return ScriptCall(script("drop_webhook"), (keys.webhook_endpoints(tenant),), argv, parse)


def read_endpoints(tenant: str) -> ScriptCall[list[Endpoint]]:
    """A tenant's endpoints, oldest first, without PER_RUN."""
    return _read(tenant, "")


def read_endpoint(tenant: str, webhook_id: str) -> ScriptCall[list[Endpoint]]:
    """One of a tenant's endpoints; an empty list = there is none of that id."""
    return _read(tenant, webhook_id)


def rotate_secret(tenant: str, webhook_id: str, secret: str) -> ScriptCall[float | None]:
    """Has another secret sign; the one before signs too for FORMER_SIGNS_S. A repeat changes nothing.

    Args:
        secret: As `new_secret` makes them. PER_RUN may have had none: then it is its first.

    Returns:
        A call that answers until when the former one signs, in epoch seconds, 0.0 = there was none; None =
        there is no such endpoint.
    """

    def parse(reply: Any) -> float | None:
        match text(reply[0]):
            case "OK":
                return int(text(reply[1]) or 0) / 1000
            case "UNKNOWN":
                return None
            case _:
                raise unexpected("rotate_secret", reply)

    argv = (secret, FORMER_SIGNS_S * 1000, int(webhook_id == PER_RUN))
    return ScriptCall(script("rotate_secret"), (keys.webhook_endpoint(tenant, webhook_id),), argv, parse)


def enable(tenant: str, webhook_id: str) -> ScriptCall[bool]:
    """Has an endpoint told again that was disabled; False = there is none of that id."""

    def parse(reply: Any) -> bool:
        return text(reply[0]) == "OK"

    argv = (keys.WEBHOOKS, tenant, webhook_id)
    return ScriptCall(script("enable_webhook"), (keys.webhook_endpoints(tenant),), argv, parse)


def read_tenants() -> CommandCall[list[str]]:
    """The tenants that have endpoints, sorted."""
    return CommandCall(("SMEMBERS", f"{keys.WEBHOOKS}tenants"), lambda reply: sorted(texts(list(reply))))


def _read(tenant: str, webhook_id: str) -> ScriptCall[list[Endpoint]]:
    def parse(reply: Any) -> list[Endpoint]:
        return [_endpoint(*texts(row)) for row in reply]

    argv = (keys.WEBHOOKS, tenant, webhook_id)
    return ScriptCall(script("read_webhooks"), (keys.webhook_endpoints(tenant),), argv, parse)


def _endpoint(
    webhook_id: str, url: str, description: str, created: str, state: str, why: str, till: str
) -> Endpoint:
    return Endpoint(
        webhook_id,
        url or None,
        description,
        int(created) / 1000 if created else None,
        Disabled(why) if state == "off" else None,
        int(till) / 1000 if till else None,
    )
