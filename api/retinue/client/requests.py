"""The requests of a launch of several, and which of them an error is about. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import cast

from retinue.contract import SubagentLaunchRequest, SubagentLifecycleError


def parsed_requests(requests: object) -> list[SubagentLaunchRequest]:
    """The requests that a caller means.

    Args:
        requests: An iterable of what `SubagentLaunchRequest.parse` takes.

    Raises:
        SubagentLifecycleError: It is none, or one of the requests is at fault; names which.
    """
    # All of these can be iterated over, and none of them into requests.
    if isinstance(requests, SubagentLaunchRequest | Mapping | str | bytes) or not isinstance(
        requests, Iterable
    ):
        raise SubagentLifecycleError(
            f"is of type {type(cast('object', requests)).__name__}",
            field="requests",
            limit="a list of requests",
            mend="put the request into a list, or use launch",
        )
    given = list(cast("Iterable[object]", requests))
    parsed: list[SubagentLaunchRequest] = []
    for at, request in enumerate(given):
        with request_named(at, len(given)):
            parsed.append(SubagentLaunchRequest.parse(request))
    return parsed


@contextmanager
def request_named(at: int, count: int) -> Generator[None]:
    """Lets an error say which request it is about, if there are several.

    Args:
        at: The place of the request, from 0.
        count: How many there are.
    """
    try:
        yield
    except SubagentLifecycleError as error:
        if count > 1:
            inner = f".{error.field}" if error.field not in (None, "request") else ""
            error.field = f"requests[{at}]{inner}"
        raise
