"""Checks of single fields: each returns the value in its canonical form or names field, limit and mend.

A check is a function of the field's name and value. They never repeat the value in the message, for it
may be a prompt, and errors end in logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeVar, cast

from .errors import SubagentLifecycleError
from .limits import (
    NAME_MAX_CHARS,
    NAMES_MAX_COUNT,
    TIMEOUT_MAX_SECONDS,
    WORKING_DIRECTORY_MAX_CHARS,
)

_Choice = TypeVar("_Choice", bound=StrEnum)

Check = Callable[[str, object], object]

_DRIVE: Final = re.compile(r"[A-Za-z]:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def type_fault(field: str, value: object, expected: str) -> SubagentLifecycleError:
    """The error for a value of the wrong type: names both types."""
    return SubagentLifecycleError(
        f"is of type {type(value).__name__}", field=field, limit=expected, mend=f"give {expected}"
    )


def encoding_fault(text: str) -> str | None:
    """What keeps a text out of the store and of UTF-8, in words; None if nothing does."""
    if "\0" in text:
        return "contains a NUL character"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate, which is no character and has no UTF-8 form"
    return None


def text(*, max_chars: int, blank: bool = False) -> Callable[[str, object], str]:
    """A check for a text of at most max_chars characters; unless `blank`, it must say something."""
    limit = f"{'' if blank else 'non-blank text of '}at most {max_chars:,} characters"

    def check(field: str, value: object) -> str:
        if not isinstance(value, str):
            raise type_fault(field, value, "a text (str)")
        if len(value) > max_chars:
            mend = "shorten it"
            raise SubagentLifecycleError(
                f"has {len(value):,} characters", field=field, limit=limit, mend=mend
            )
        if not blank and (not value or value.isspace()):
            mend = "say something in it"
            raise SubagentLifecycleError("is blank", field=field, limit=limit, mend=mend)
        wrong = encoding_fault(value)
        if wrong is not None:
            rule = "text that can be written as UTF-8, without NUL"
            mend = "remove it, or decode the source with errors='replace'"
            raise SubagentLifecycleError(wrong, field=field, limit=rule, mend=mend)
        return str.__str__(value)  # a subclass (an enum's member, a markup string) becomes plain text

    return check


def optional(check: Check) -> Check:
    """A check that lets None through."""

    def optional_check(field: str, value: object) -> object:
        return None if value is None else check(field, value)

    return optional_check


def name(*, max_chars: int = NAME_MAX_CHARS) -> Check:
    """A check for an optional name; None and the empty text both mean that there is none."""
    filled = text(max_chars=max_chars)

    def check(field: str, value: object) -> str | None:
        return None if value is None or value == "" else filled(field, value)

    return check


def names(field: str, value: object) -> tuple[str, ...]:
    """A sequence of names, without repetitions. A single text is refused: its letters are no names."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise type_fault(field, value, "a list or tuple of names")
    given = cast("list[object]", list(value))  # pyright: ignore[reportUnknownArgumentType]
    if len(given) > NAMES_MAX_COUNT:
        limit = f"at most {NAMES_MAX_COUNT:,} names"
        mend = "name fewer"
        raise SubagentLifecycleError(f"has {len(given):,} names", field=field, limit=limit, mend=mend)
    check = text(max_chars=NAME_MAX_CHARS)
    checked = [check(f"{field}[{index}]", item) for index, item in enumerate(given)]
    if isinstance(value, set | frozenset):
        checked.sort()  # a set has no order, a request's digest needs one
    return tuple(dict.fromkeys(checked))


def choice(kind: type[_Choice]) -> Callable[[str, object], _Choice]:
    """A check for one of an enum's values, as member or as text."""
    limit = " or ".join(repr(member.value) for member in kind)

    def check(field: str, value: object) -> _Choice:
        if not isinstance(value, str):
            raise type_fault(field, value, limit)
        try:
            return kind(value)
        except ValueError:
            pass
        raise SubagentLifecycleError(
            "is none of the values allowed", field=field, limit=limit, mend=f"give {limit}"
        )

    return check


def count(*, min_count: int, max_count: int) -> Callable[[str, object], int]:
    """A check for a whole number; True and 3.0 are none."""
    limit = f"a whole number from {min_count:,} to {max_count:,}"

    def check(field: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise type_fault(field, value, limit)
        if not min_count <= value <= max_count:
            raise SubagentLifecycleError("is out of range", field=field, limit=limit, mend=f"give {limit}")
        return int(value)

    return check


def seconds(field: str, value: object) -> float:
    """A positive, finite number of seconds."""
    limit = f"more than 0 and at most {TIMEOUT_MAX_SECONDS:,.0f} seconds"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise type_fault(field, value, "a number of seconds")
    # Compared before float(): an int of a thousand digits has no float. NaN fails every comparison.
    if not 0 < value <= TIMEOUT_MAX_SECONDS:
        mend = "give a positive number of seconds, or None for no deadline"
        raise SubagentLifecycleError("is out of range", field=field, limit=limit, mend=mend)
    return float(value)


def relative_path(field: str, value: object) -> str:
    """A relative POSIX path that cannot leave the directory it is joined to; `a//./b` becomes `a/b`.

    Symbolic links are the worker's business: only it can see them.
    """
    if isinstance(value, os.PathLike):
        value = cast("object", os.fspath(cast("os.PathLike[str]", value)))
    path = text(max_chars=WORKING_DIRECTORY_MAX_CHARS)(field, value)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    plain = "/".join(parts) or "."
    wrong = None
    # The plain form is what is joined later: "./~" must not become "~", nor "./c:" a drive.
    if path.startswith("/") or plain.startswith("~"):
        wrong = "is absolute or starts in a home directory"
    elif "\\" in plain or _DRIVE.match(plain):
        wrong = "has a backslash or a drive letter"
    elif ".." in parts:
        wrong = "has a part '..'"
    elif _CONTROL.search(path):
        wrong = "has control characters"
    if wrong is not None:
        limit = "a relative path below the worker's workspace root"
        mend = "give a path such as 'reports/2024', with / between its parts"
        raise SubagentLifecycleError(wrong, field=field, limit=limit, mend=mend)
    return plain
