"""Every refusal as problem+json (RFC 9457): one status for each code, and the text of none is a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from retinue.contract import (
    ErrorCode,
    SettingsError,
    StoreError,
    SubagentLifecycleError,
)
from retinue.contract.errors import StoreMemoryError, StoreUnavailableError
from retinue.http.allowed_methods import allowed_methods

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 2

STATUS_OF_CODE: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID_REQUEST: 422,
    ErrorCode.UNKNOWN_AGENT: 422,
    ErrorCode.UNKNOWN_TOOLSET: 422,
    ErrorCode.UNKNOWN_PROVIDER: 422,
    ErrorCode.TOOLSET_BROADENING: 403,
    ErrorCode.DUPLICATE_CORRELATION: 409,
    ErrorCode.CORRELATION_CONFLICT: 409,
    ErrorCode.CAPACITY_REACHED: 429,
    ErrorCode.DEPTH_EXCEEDED: 422,
    ErrorCode.DUPLICATE_WORK: 409,
    ErrorCode.PARENT_ENDED: 409,
    ErrorCode.NO_PARENT: 422,
    ErrorCode.NO_WORKER: 503,
    ErrorCode.RUN_ACTIVE: 409,
    ErrorCode.UNKNOWN_HANDLE: 404,
    ErrorCode.STORE_UNAVAILABLE: 503,
    ErrorCode.LAUNCH_UNKNOWN: 503,
    ErrorCode.WRONG_LOOP: 500,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.RATE_LIMITED: 429,
}

# What the framework itself refuses, by status.
_OF_FRAMEWORK: Final = {
    400: ("MALFORMED_JSON", "the body cannot be read"),
    404: ("NOT_FOUND", "there is nothing at this path"),
    405: ("METHOD_NOT_ALLOWED", "this path does not take this method"),
}
_BY_ITSELF: Final = frozenset({429, 503})
"""Statuses after which the same request may go well a little later."""


class Problem(Exception):
    """A request that is answered with problem+json.

    Args:
        code: The reason for programs, one of the contract's or of HTTP's own.
        status: The HTTP status.
        detail: What is wrong, for people.
        field: What is at fault, dotted for nested ones. None = no single one.
        limit: The rule that it breaks, with its unit.
        mend: What the caller can do about it.
        headers: Further headers of the answer, such as Retry-After.
    """

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        limit: str | None = None,
        mend: str | None = None,
        headers: Mapping[str, str] | None = None,
        handle: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = str(code)
        self.status = status
        self.detail = detail
        self.field = field
        self.limit = limit
        self.mend = mend
        self.headers = dict(headers or {})
        self.handle = handle
        if status in _BY_ITSELF:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S))

    def to_dict(self, request_id: str | None = None) -> dict[str, Any]:
        """The members of the answer; those without a value are left out."""
        members = {
            "type": f"urn:retinue:problem:{self.code.lower().replace('_', '-')}",
            "title": _words(self.code),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "field": self.field,
            "limit": self.limit,
            "mend": self.mend,
            "handle": self.handle,
            "request_id": request_id,
        }
        return {name: value for name, value in members.items() if value is not None}

    def response(self, request_id: str | None = None) -> Response:
        """The whole answer."""
        return JSONResponse(self.to_dict(request_id), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """The problem that an error becomes; one that nobody raised on purpose tells nothing of itself."""
    match error:
        case Problem():
            return error
        case SubagentLifecycleError():
            return _of_lifecycle(error)
        case StoreUnavailableError():
            return Problem(ErrorCode.STORE_UNAVAILABLE, 503, "the store does not answer", mend=error.mend)
        case StoreMemoryError():
            return Problem(ErrorCode.STORE_UNAVAILABLE, 503, "the store is out of memory")
        case SettingsError():
            return Problem("INTERNAL_ERROR", 500, error.message, field=error.setting, mend=error.mend)
        case RequestValidationError():
            return _of_validation(error)
        case HTTPException():
            return _of_framework(error)
        case _:
            return Problem("INTERNAL_ERROR", 500, "something went wrong; the log of the server tells what")


def request_id_of(request: Request) -> str | None:
    """The id that stands in a request's answer and in the log."""
    found: str | None = request.scope.get("state", {}).get("request_id")
    return found


def add_problem_handlers(app: FastAPI) -> None:
    """Has every error that is raised on purpose answered with problem+json."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 405:
            problem.headers["Allow"] = ", ".join(allowed_methods(request))
        return problem.response(request_id_of(request))

    for kind in (
        Problem,
        SubagentLifecycleError,
        StoreError,
        SettingsError,
        RequestValidationError,
        HTTPException,
    ):
        app.add_exception_handler(kind, answer)


def _words(code: str) -> str:
    return code.replace("_", " ").capitalize().replace("Json", "JSON").replace("json", "JSON")


def _of_lifecycle(error: SubagentLifecycleError) -> Problem:
    return Problem(
        error.code,
        STATUS_OF_CODE[error.code],
        error.message,
        field=error.field,
        limit=error.limit,
        mend=error.mend,
        handle=error.handle.to_dict() if error.handle is not None else None,
    )


def _of_validation(error: RequestValidationError) -> Problem:
    # Never what was sent: it may be a prompt.
    first: Mapping[str, Any] = error.errors()[0]
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, SubagentLifecycleError):  # bodies are checked by the contract
        return _of_lifecycle(ours)
    where, *path = [str(part) for part in first["loc"]]
    return Problem(ErrorCode.INVALID_REQUEST, 422, f"{where}: {first['msg']}", field=".".join(path) or where)


def _of_framework(error: HTTPException) -> Problem:
    code, detail = _OF_FRAMEWORK.get(error.status_code, (ErrorCode.INVALID_REQUEST, str(error.detail)))
    return Problem(code, error.status_code, detail, headers=error.headers)
