"""What the API's refusals and silences mean to the caller: the errors that the direct facade raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from retinue.contract import ErrorCode, SubagentLifecycleError, coerce_handle

IN_FLIGHT: Final = "IDEMPOTENCY_IN_FLIGHT"
"""The API's code for a repeat that came while the first one is at work."""

_MENDS: Final = {
    ErrorCode.UNAUTHENTICATED: "give a key that is not revoked as api_key, or in RETINUE_API_KEY",
    ErrorCode.FORBIDDEN: "use a key with that scope: see `retinue keys`",
    ErrorCode.RATE_LIMITED: "ask less often, or raise the key's limit",
}


def problem_in(body: object) -> Mapping[str, Any]:
    """The members of a problem+json; none if it is nothing of the kind."""
    found = cast("Mapping[str, Any]", body) if isinstance(body, Mapping) else {}
    return found if isinstance(found.get("code"), str) else {}


def is_unknown_run(problem: Mapping[str, Any], *, by_handle_alone: bool) -> bool:
    """Whether the API says that a run is none of the caller's, or none that is kept.

    Args:
        by_handle_alone: The handle was all that the caller had to show, so that a bad one opens nothing.
    """
    return problem.get("code") == ErrorCode.UNKNOWN_HANDLE or (
        by_handle_alone and problem.get("code") == ErrorCode.UNAUTHENTICATED
    )


def refusal(status: int, problem: Mapping[str, Any], url: str) -> SubagentLifecycleError:
    """The error for a request that the API refused.

    Args:
        status: Of the answer.
        problem: Its members; empty = it came from something else than Retinue.
        url: The API's.
    """
    if not problem:
        return _not_ours(status, url)
    code = _code(problem["code"], status)
    if code is ErrorCode.STORE_UNAVAILABLE and problem["code"] != code:
        return unavailable(url, _text(problem, "detail") or problem["code"])
    return SubagentLifecycleError(
        _text(problem, "detail") or problem["code"],
        field=_text(problem, "field"),
        limit=_text(problem, "limit"),
        mend=_text(problem, "mend") or _MENDS.get(code),
        code=code,
        handle=coerce_handle(problem.get("handle")),
    )


def unavailable(url: str, why: str) -> SubagentLifecycleError:
    """The error for an API that cannot be reached or does not answer: to the caller it is the store."""
    return SubagentLifecycleError(
        f"the API at {url} does not answer: {why}",
        mend="see that `retinue web` runs there, then try again",
        code=ErrorCode.STORE_UNAVAILABLE,
    )


def unknown_launch(url: str, why: str) -> SubagentLifecycleError:
    """The error for a launch that was sent, and of which nothing more was heard."""
    return SubagentLifecycleError(
        f"the launch was sent to the API at {url}, and what became of it is unknown: {why}",
        mend='see list() later, or launch again with the same correlation_id and on_duplicate="return"',
        code=ErrorCode.LAUNCH_UNKNOWN,
    )


def unreadable(url: str) -> SubagentLifecycleError:
    """The error for an answer that is none of this API's."""
    return SubagentLifecycleError(
        f"what {url} answers is not the answer of Retinue's API, or not of this release",
        field="url",
        mend="see that it is the API's root, and of the same release as this client",
        code=ErrorCode.STORE_UNAVAILABLE,
    )


def _code(code: str, status: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.STORE_UNAVAILABLE if status >= 500 else ErrorCode.INVALID_REQUEST


def _not_ours(status: int, url: str) -> SubagentLifecycleError:
    if 300 <= status < 400:
        return SubagentLifecycleError(
            f"{url} answers with a redirect ({status}), which is not followed with a key",
            field="url",
            mend="give the address that it leads to",
        )
    return unavailable(url, f"HTTP {status}") if status >= 500 else unreadable(url)


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    found = problem.get(name)
    return found if isinstance(found, str) and found else None
