"""Who may use a route: the dependencies that routes declare, and the run that a path names.

A caller learns nothing of what is not its own: what belongs to another tenant, what has expired and what
never was get the same answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import Depends, Path, Request
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from retinue.client import AsyncSubagentLifecycle, SubagentHandle
from retinue.contract import ErrorCode, is_run_id
from retinue.http.credentials import (
    HANDLE_HEADER,
    TENANT_HEADER,
    Caller,
    caller_by_bearer,
    caller_by_handle,
    decoded_handle,
    genuine_handle,
    unauthenticated,
)
from retinue.http.problems import Problem
from retinue.http.service import service_of
from retinue.http.withheld import is_withheld
from retinue.store.operations.api_keys import Scope

__all__ = [
    "Admin",
    "Caller",
    "ReadTarget",
    "Reader",
    "RunTarget",
    "Scope",
    "SomeCaller",
    "WriteTarget",
    "Writer",
    "unknown_run",
]


@dataclass(frozen=True, slots=True)
class RunTarget:
    """A run that the caller may act on.

    Args:
        caller: Who asks.
        handle: A genuine handle of the run.
        lifecycle: A facade that may act on every session of the tenant; it launches nothing.
    """

    caller: Caller
    handle: SubagentHandle
    lifecycle: AsyncSubagentLifecycle


_bearer: Final = HTTPBearer(
    auto_error=False, scheme_name="key", description="An API key, or a JSON Web Token."
)
_handle: Final = APIKeyHeader(
    name=HANDLE_HEADER,
    auto_error=False,
    scheme_name="handle",
    description="A run's handle, as base64url of its JSON: it opens the routes of that run, without any key. "
    f"{TENANT_HEADER} names its tenant, if that is not _.",
)


async def _caller(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    shown_handle: Annotated[str | None, Depends(_handle)],
) -> Caller:
    service = service_of(request)
    if "authorization" in request.headers:
        caller = await caller_by_bearer(service, credentials.credentials if credentials else "")
        if request.headers.get(TENANT_HEADER, caller.tenant) != caller.tenant:
            raise _another_tenant()
    elif shown_handle is not None:
        caller = await caller_by_handle(service, request.headers.get(TENANT_HEADER, "_"), shown_handle)
    else:
        raise unauthenticated()
    request.state.caller = caller
    if shown_handle is None or caller.by_handle:
        return caller
    handle = await genuine_handle(service, caller.tenant, shown_handle)
    if handle is not None:
        return replace(caller, handle=handle)
    if is_withheld(decoded_handle(shown_handle)):
        return caller
    raise unknown_run()


def _another_tenant() -> Problem:
    return Problem(
        "FORBIDDEN",
        403,
        "the credentials are good, and not for this tenant",
        field=TENANT_HEADER,
        mend="leave the tenant out, or use a key of that tenant",
    )


def _forbidden(scope: Scope) -> Problem:
    return Problem(
        "FORBIDDEN",
        403,
        "the credentials are good, and not for this",
        limit=f"needs the scope {scope}",
        mend="use a key that was made with that scope",
    )


def unknown_run() -> Problem:
    """The one answer for a run that is not the caller's, has expired, or never was."""
    return Problem(
        ErrorCode.UNKNOWN_HANDLE,
        404,
        "leads to no run that is kept",
        field="run_id",
        mend="check the id and the credentials; a run is kept for result_ttl_seconds after its end",
    )


def _having(scope: Scope) -> Callable[[Caller], Awaitable[Caller]]:
    async def dependency(caller: Annotated[Caller, Depends(_caller)]) -> Caller:
        if caller.by_handle:
            raise unauthenticated()
        if not caller.may(scope):
            raise _forbidden(scope)
        return caller

    return dependency


def _target(scope: Scope) -> Callable[..., Awaitable[RunTarget]]:
    async def dependency(
        request: Request,
        caller: Annotated[Caller, Depends(_caller)],
        run_id: Annotated[str, Path(description="The run's id.", examples=["sa-p07-" + "a" * 26])],
    ) -> RunTarget:
        if not caller.may(scope):
            raise _forbidden(scope)
        given = caller.handle
        if given is not None and given.subagent_id != run_id:
            raise unauthenticated() if caller.by_handle else unknown_run()
        lifecycle = service_of(request).operator(caller.tenant)
        if given is not None:
            # Also of a run that has expired: its conversation may be kept for longer.
            return RunTarget(caller, given, lifecycle)
        found = await lifecycle.handle(run_id) if is_run_id(run_id) else None
        if found is None:
            raise unknown_run()
        return RunTarget(caller, found, lifecycle)

    return dependency


SomeCaller = Annotated[Caller, Depends(_caller)]
"""Whoever has good credentials, of whatever scope: for what is only used beside one of the others."""
Reader = Annotated[Caller, Depends(_having(Scope.READ))]
"""A caller that may read runs."""
Writer = Annotated[Caller, Depends(_having(Scope.WRITE))]
"""A caller that may launch and control runs."""
Admin = Annotated[Caller, Depends(_having(Scope.ADMIN))]
"""A caller that may act on workers, dead letters and webhooks."""
ReadTarget = Annotated[RunTarget, Depends(_target(Scope.READ))]
"""The run in the path, of a caller that may read it."""
WriteTarget = Annotated[RunTarget, Depends(_target(Scope.WRITE))]
"""The run in the path, of a caller that may control it."""
