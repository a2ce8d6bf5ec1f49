"""The requests of a launch of several, and which of them an error is about. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from retinue.client.launching.documents import with_document
from retinue.contract import SubagentLaunchRequest, SubagentLifecycleError


def launch_request(value: object = None, /, **fields: object) -> SubagentLaunchRequest:
    """The request that a caller means; its agent may be given by value.

    Args:
        value: A request, or a mapping of its fields.
        fields: The fields as keywords, instead of a value.

    Raises:
        SubagentLifecycleError: Names the first field at fault, its limit and the mend.
    """
    if value is None:
        return SubagentLaunchRequest.parse(with_document(fields))
    if isinstance(value, Mapping) and not fields:
        return SubagentLaunchRequest.parse(with_document(cast("Mapping[object, object]", value)))
    return SubagentLaunchRequest.parse(value, **fields)


def parsed_requests(requests: object) -> list[SubagentLaunchRequest]:
    """The requests that a caller means.

    Args:
        requests: An iterable of what `launch_request` takes.

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
            parsed.append(launch_request(request))
    return parsed


class request_named:
    """Lets an error say which request it is about, if there are several.

    Args:
        at: The place of the request, from 0.
        count: How many there are.
    """

    __slots__ = ("_at", "_count")

    def __init__(self, at: int, count: int) -> None:
        self._at = at
        self._count = count

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, SubagentLifecycleError) and self._count > 1:
            inner = f".{error.field}" if error.field not in (None, "request") else ""
            error.field = f"requests[{self._at}]{inner}"
