"""Pages of lists that are short enough to be read whole: each item has a name, and stands by it."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Query

from retinue.contract import SubagentLifecycleError
from retinue.http.run_pages import PAGE, PAGE_MAX

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="Longest page.")]
Place = Annotated[str | None, Query(description="next_cursor of the page before.")]
PAGE_DEFAULT: Final = PAGE


@dataclass(frozen=True, slots=True)
class NamedPage(Generic[T]):
    """Some items, and where those after them begin; None = there are none."""

    items: Sequence[T]
    next_cursor: str | None


def named_page(
    items: Iterable[T], name: Callable[[T], str], *, limit: int, cursor: str | None
) -> NamedPage[T]:
    """The items behind a place, by name.

    Args:
        items: All of them.
        name: Of an item; no two have the same.
        limit: Longest page.
        cursor: `next_cursor` of the page before. None = from the first.

    Raises:
        SubagentLifecycleError: The cursor is none.
    """
    last = None if cursor is None else read_place(cursor, str)[0]
    rest = sorted((item for item in items if last is None or name(item) > last), key=name)
    page = rest[:limit]
    return NamedPage(page, written_place(name(page[-1])) if len(rest) > limit else None)


def written_place(*words: str | float) -> str:
    """A place in a list, as a caller gets it."""
    return urlsafe_b64encode(json.dumps(words).encode()).decode().rstrip("=")


def read_place(cursor: str, *kinds: type) -> list[Any]:
    """The words of a place that `written_place` gave.

    Args:
        kinds: Their types.

    Raises:
        SubagentLifecycleError: It is none of such a list.
    """
    try:
        words = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        words = None
    if isinstance(words, list) and [type(word) for word in words] == [*kinds]:  # pyright: ignore[reportUnknownVariableType]
        return words  # pyright: ignore[reportUnknownVariableType]
    raise SubagentLifecycleError(
        "is no cursor of this list",
        field="cursor",
        limit="next_cursor of the page before",
        mend="leave it out to begin anew",
    )
