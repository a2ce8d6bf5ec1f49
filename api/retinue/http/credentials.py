"""What a request shows of its caller: an API key, a token, or a run's handle; and who that makes it."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Final

from retinue.client import SubagentHandle
from retinue.contract import SubagentLifecycleError, coerce_handle, validate_tenant
from retinue.http.problems import Problem
from retinue.http.service import Service
from retinue.http.tokens import TokenReader
from retinue.store.operations.admission import admit, admit_key
from retinue.store.operations.api_keys import Scope, ShownKey

HANDLE_HEADER: Final = "Retinue-Handle"
TENANT_HEADER: Final = "Retinue-Tenant"
HANDLE_CALLER: Final = "handle"
_HANDLE_MAX_CHARS: Final = 8_000
_KEY_PREFIX: Final = "rtn_"
_TOKEN_PREFIX: Final = "jwt:"
_WIDER: Final = {
    Scope.READ: frozenset({Scope.READ, Scope.WRITE, Scope.ADMIN}),
    Scope.WRITE: frozenset({Scope.WRITE, Scope.ADMIN}),
    Scope.ADMIN: frozenset({Scope.ADMIN}),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Args:
        tenant: Whose runs the caller may see.
        scopes: What it may do.
        key_id: Of the API key, for limits and logs; of a token "jwt:" and its subject, of a handle "handle".
        name: What the key is for, in its maker's words.
        handle: The genuine handle that came along; with no key it is the caller's whole authority.
        by_handle: A handle is all that the caller has.
        expires_at: When the key or the token expires, in epoch seconds. None = never.
    """

    tenant: str
    scopes: frozenset[Scope]
    key_id: str
    name: str = ""
    handle: SubagentHandle | None = None
    by_handle: bool = False
    expires_at: float | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has a scope, also by one that includes it."""
        return not self.scopes.isdisjoint(_WIDER[scope])

    @property
    def api_key_id(self) -> str | None:
        """Of the API key that may be revoked; None = the caller has shown something else."""
        return None if self.by_handle or self.key_id.startswith(_TOKEN_PREFIX) else self.key_id

    @property
    def whom(self) -> str:
        """What tells the caller from all others of the tenant, in limits and idempotency keys."""
        return self.handle.subagent_id if self.by_handle and self.handle else self.key_id


async def caller_by_bearer(service: Service, shown: str) -> Caller:
    """Whom an API key or a token names; a request of the caller's is counted.

    Raises:
        Problem: UNAUTHENTICATED, or RATE_LIMITED.
        SubagentLifecycleError: STORE_UNAVAILABLE.
    """
    if service.tokens is not None and not shown.startswith(_KEY_PREFIX):
        return await _by_token(service, service.tokens, shown)
    shown_key = ShownKey.of(shown)
    limit = service.settings.http.requests_per_minute
    admitted = await service.connections().store.run(admit_key(shown_key, requests_per_minute=limit))
    if admitted is None:
        raise unauthenticated()
    _refuse_hurry(admitted.wait_ms, limit)
    key = admitted.key
    return Caller(key.tenant, key.scopes, key.key_id, key.name, expires_at=key.expires_at)


async def _by_token(service: Service, tokens: TokenReader, shown: str) -> Caller:
    holder = tokens.read(shown)
    if holder is None:
        raise unauthenticated()
    key_id = f"{_TOKEN_PREFIX}{holder.subject}"
    await _count(service, hashlib.sha256(f"{holder.tenant}/{key_id}".encode()).hexdigest()[:40])
    return Caller(holder.tenant, holder.scopes, key_id, expires_at=holder.expires_at)


async def caller_by_handle(service: Service, tenant: str, shown: str) -> Caller:
    """The holder of a run's handle, who has nothing else; as `caller_by_bearer`."""
    handle = await genuine_handle(service, tenant, shown)
    if handle is None:
        raise unauthenticated()
    await _count(service, handle.subagent_id)
    scopes = frozenset({Scope.READ, Scope.WRITE})
    return Caller(tenant, scopes, HANDLE_CALLER, handle=handle, by_handle=True)


async def _count(service: Service, whom: str) -> None:
    limit = service.settings.http.requests_per_minute
    wait_ms = await service.connections().store.run(admit(whom, requests_per_minute=limit))
    _refuse_hurry(wait_ms, limit)


async def genuine_handle(service: Service, tenant: str, shown: str) -> SubagentHandle | None:
    """The handle in the header; None if it was not made for this tenant, or was altered.

    Raises:
        SubagentLifecycleError: STORE_UNAVAILABLE.
    """
    handle = decoded_handle(shown)
    if handle is None or not _is_tenant(tenant):
        return None
    return handle if await service.connections().keyring.verify(tenant, handle) else None


def decoded_handle(shown: str) -> SubagentHandle | None:
    """The handle in the header; None if that holds none. Never raises."""
    if not 0 < len(shown) <= _HANDLE_MAX_CHARS:
        return None
    try:
        padded = shown.encode("ascii") + b"=" * (-len(shown) % 4)
        return coerce_handle(json.loads(b64decode(padded, altchars=b"-_", validate=True)))
    except (ValueError, RecursionError):
        return None


def _is_tenant(tenant: str) -> bool:
    try:
        validate_tenant(tenant)
    except SubagentLifecycleError:
        return False
    return True


def _refuse_hurry(wait_ms: int, limit: int) -> None:
    if wait_ms > 0:
        raise Problem(
            "RATE_LIMITED",
            429,
            "too many requests in the last minute",
            limit=f"{limit:,} requests per minute",
            mend="wait for as long as Retry-After says; or raise http.requests_per_minute",
            headers={"Retry-After": str(-(-wait_ms // 1000))},
        )


def unauthenticated() -> Problem:
    """The one answer to credentials that are missing, forged, revoked or out of date."""
    return Problem(
        "UNAUTHENTICATED",
        401,
        "no credentials, or none that are good here",
        mend=f"send Authorization: Bearer with an API key, or the run's handle as {HANDLE_HEADER}",
        headers={"WWW-Authenticate": 'Bearer realm="retinue"'},
    )
