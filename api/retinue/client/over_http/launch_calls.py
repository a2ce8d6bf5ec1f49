"""The requests that start runs, and those about dead letters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retinue.client.over_http.call import MUCH_S, Call
from retinue.client.over_http.run_calls import path_of
from retinue.client.scope import Scope
from retinue.client.steps.continuing import unknown_conversation
from retinue.contract import SubagentHandle, SubagentLaunchRequest, SubagentLifecycleError
from retinue.store.operations.launching import MAX_LAUNCHES


def launch(scope: Scope, request: SubagentLaunchRequest) -> Call[SubagentHandle]:
    """Mirrors `SubagentLifecycle.launch`.

    Raises:
        SubagentLifecycleError: NO_PARENT.
    """
    body = {"session_id": scope.launching_session(), **_fields(request)}
    return Call(method="POST", path="/v1/runs", body=body, parse=handle_in, mutates=True, launches=True)


def launch_many(scope: Scope, requests: Sequence[SubagentLaunchRequest]) -> Call[tuple[SubagentHandle, ...]]:
    """Mirrors `SubagentLifecycle.launch_many`.

    Raises:
        SubagentLifecycleError: NO_PARENT, or none or too many.
    """
    if not 1 <= len(requests) <= MAX_LAUNCHES:
        raise SubagentLifecycleError(
            f"there are {len(requests)}",
            field="requests",
            limit=f"1 to {MAX_LAUNCHES}",
            mend="launch in several calls" if requests else f"give 1 to {MAX_LAUNCHES}",
        )
    body = {"session_id": scope.launching_session(), "requests": list(map(_fields, requests))}
    return Call(
        method="POST",
        path="/v1/runs/batch",
        body=body,
        parse=_handles_in,
        mutates=True,
        launches=True,
        work_s=MUCH_S,
    )


def continue_run(
    scope: Scope, handle: object, text: object, changes: Mapping[str, object]
) -> Call[SubagentHandle]:
    """Mirrors `SubagentLifecycle.continue_run`.

    Raises:
        SubagentLifecycleError: NO_PARENT, UNKNOWN_HANDLE, or the text or a change is at fault.
    """
    scope.launching_session()
    found = scope.candidate(handle)
    if found is None:
        raise unknown_conversation()
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        turn = _fields(SubagentLaunchRequest.parse({**given, "goal": text}))
    except SubagentLifecycleError as error:
        error.field = "text" if error.field == "goal" else error.field
        raise
    return Call(
        method="POST",
        path=path_of(found, "continue"),
        body={"text": turn["goal"], **{name: turn[name] for name in given if name in turn}},
        handle=found,
        parse=handle_in,
        unknown=_no_conversation,
        mutates=True,
        launches=True,
    )


def handle_in(body: Any) -> SubagentHandle:
    """The handle of what was launched."""
    return SubagentHandle.from_dict(body["handle"])


def _handles_in(body: Any) -> tuple[SubagentHandle, ...]:
    return tuple(map(handle_in, body["runs"]))


def _no_conversation() -> SubagentHandle:
    raise unknown_conversation()


def _fields(request: SubagentLaunchRequest) -> dict[str, Any]:
    return request.model_dump(mode="json", exclude_defaults=True)
