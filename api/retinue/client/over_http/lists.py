"""Operations of several requests: pages, trees, and dead letters, whose session is looked at first. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from retinue.client.launching.faults import no_letter
from retinue.client.over_http import run_calls
from retinue.client.over_http.call import Call, Steps
from retinue.client.over_http.launch_calls import handle_in
from retinue.client.reading.reads import checked_page
from retinue.client.reading.tree import SubagentNode
from retinue.client.scope import Scope
from retinue.client.steps.replaying import checked_scope, letter_key
from retinue.contract import DeadLetter, SubagentHandle, SubagentStatus

T = TypeVar("T")

PAGE = 200
"""Longest page that the API gives."""


def located(scope: Scope, run: object) -> Steps[SubagentHandle | None]:
    """The handle of a run that is given by its handle or its bare id; None = none of this scope."""
    if not isinstance(run, str):
        return scope.candidate(run)
    key = scope.run_key(run)
    if key is None:
        return None
    found: SubagentStatus = yield run_calls.status_by_id(key.run_id)
    return scope.candidate(found.handle)


def handle(scope: Scope, run_id: object) -> Steps[SubagentHandle | None]:
    """Mirrors `SubagentLifecycle.handle`."""
    return located(scope, run_id if isinstance(run_id, str) else "")


def tree(scope: Scope, run: object) -> Steps[tuple[SubagentNode, ...]]:
    """Mirrors `SubagentLifecycle.tree`."""
    handle = yield from located(scope, run)
    if handle is None:
        return ()

    def nodes_in(body: Any) -> tuple[SubagentNode, ...]:
        return tuple(map(SubagentNode.from_dict, body["nodes"]))

    path = run_calls.path_of(handle, "tree")
    return (yield Call(method="GET", path=path, handle=handle, parse=nodes_in, unknown=tuple))


def runs(
    scope: Scope, session_id: object, offset: object, limit: object
) -> Steps[tuple[SubagentStatus, ...]]:
    """Mirrors `SubagentLifecycle.list`."""
    session = scope.listed_session(session_id)
    skip, want = checked_page(offset, limit)
    pages = _Pages("/v1/runs", "runs", SubagentStatus.from_dict, {"session": session})
    found: list[SubagentStatus] = []
    while len(found) < skip + want and pages.is_more:
        found += yield pages.next(skip + want - len(found))
    return tuple(found[skip : skip + want])


def dead_letters(scope: Scope, limit: object) -> Steps[tuple[DeadLetter, ...]]:
    """Mirrors `SubagentLifecycle.dead_letters`."""
    scope = checked_scope(scope)
    _, most = checked_page(0, limit)
    session = None if scope.is_operator else scope.session_id
    pages = _Pages("/v1/dead-letters", "dead_letters", DeadLetter.from_dict, {})
    found: list[DeadLetter] = []
    while len(found) < most and pages.is_more:
        page: list[DeadLetter] = yield pages.next(most - len(found) if session is None else PAGE)
        found += [letter for letter in page if session in (None, letter.session_id)]
    return tuple(found[:most])


def dead_letter(scope: Scope, run: object) -> Steps[DeadLetter | None]:
    """Mirrors `SubagentLifecycle.dead_letter`."""
    scope = checked_scope(scope)
    key = letter_key(scope, run)
    if key is None:
        return None
    found: DeadLetter | None = yield Call(
        method="GET", path=_letter(key.run_id), parse=DeadLetter.from_dict, unknown=_none
    )
    foreign = found is not None and not scope.is_operator and found.session_id != scope.session_id
    return None if foreign else found


def replay(scope: Scope, run: object) -> Steps[SubagentHandle]:
    """Mirrors `SubagentLifecycle.replay`."""
    letter = yield from dead_letter(scope, run)
    if letter is None:
        raise no_letter()
    return (
        yield Call(
            method="POST",
            path=_letter(letter.run_id) + "/replay",
            parse=handle_in,
            mutates=True,
            launches=True,
        )
    )


def discard(scope: Scope, run: object) -> Steps[bool]:
    """Mirrors `SubagentLifecycle.discard`."""
    letter = yield from dead_letter(scope, run)
    if letter is None:
        return False
    return (
        yield Call(
            method="DELETE",
            path=_letter(letter.run_id),
            parse=_is_discarded,
            unknown=bool,
            gone=lambda: True,
            mutates=True,
        )
    )


class _Pages:
    """The pages of a list, one after the other.

    Args:
        path: The list's.
        name: Under which a page's items stand.
        item: Makes one of them.
        query: What is listed.
    """

    def __init__(self, path: str, name: str, item: Callable[[Any], Any], query: dict[str, str]) -> None:
        self._path = path
        self._name = name
        self._item = item
        self._query = query
        self._cursor: str | None = None
        self.is_more = True

    def next(self, want: int) -> Call[list[Any]]:
        """The request for the next page, of at most so many."""
        cursor = {} if self._cursor is None else {"cursor": self._cursor}
        query = {**self._query, **cursor, "limit": min(want, PAGE)}
        return Call(method="GET", path=self._path, query=query, parse=self._take, unknown=list)

    def _take(self, body: Any) -> list[Any]:
        found = [self._item(each) for each in body[self._name]]
        self._cursor = body.get("next_cursor")
        self.is_more = self._cursor is not None
        return found


def _letter(run_id: str) -> str:
    return f"/v1/dead-letters/{run_id}"


def _none() -> None:
    return None


def _is_discarded(body: Any) -> bool:
    return bool(body["discarded"])
