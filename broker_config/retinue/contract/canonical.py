"""JSON in one agreed form, and the check that a value is plain and bounded JSON at all.

Digests, MACs and hashes are taken over this form, so two processes agree on them byte for byte.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from .checks import Check, encoding_fault, type_fault
from .errors import SubagentLifecycleError
from .limits import JSON_INT_MAX_BITS, JSON_MAX_DEPTH

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_PLAIN = "plain JSON: mappings with text keys, lists, texts, finite numbers, booleans and None"


def canonical_json(value: object) -> str:
    """The value as JSON with sorted keys, no blanks, and no escapes beyond those that JSON demands.

    Raises:
        ValueError: NaN or an infinity in it.
        TypeError: something in it that JSON has no form for.
    """
    return _CANONICAL.encode(value)


def json_object(*, max_bytes: int) -> Check:
    """A check for a mapping of plain JSON; it answers a deep copy in plain dicts and lists.

    Args:
        max_bytes: the largest size as ``json.dumps(value, sort_keys=True)`` writes it, which escapes
            to ASCII: a character beyond ASCII counts six bytes or twelve.
    """

    def check(field: str, value: object) -> dict[str, JsonValue]:
        if not isinstance(value, Mapping):
            raise type_fault(field, value, "a mapping of plain JSON")
        copy = _Copy(field, max_bytes).of(cast("object", value), 1)
        size = len(json.dumps(copy, sort_keys=True))
        if size > max_bytes:
            raise _too_large(field, f"has {size:,} bytes as JSON", max_bytes)
        return cast("dict[str, JsonValue]", copy)

    return check


class _Copy:
    """A bounded walk: a value that contains itself ends at the depth, a wide one at the size."""

    def __init__(self, field: str, max_bytes: int) -> None:
        self._field = field
        self._max_bytes = max_bytes
        self._left = max_bytes  # every node and every character takes at least one byte

    def of(self, value: object, depth: int) -> JsonValue:
        self._spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            if value.bit_length() > JSON_INT_MAX_BITS:
                raise self._fault("a huge integer", f"integers of at most {JSON_INT_MAX_BITS:,} bits")
            return int(value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self._fault("NaN or an infinity", _PLAIN)
            return float(value)
        if depth > JSON_MAX_DEPTH:
            raise self._fault("too many containers within containers", f"{JSON_MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), depth)
        if isinstance(value, list | tuple):
            items = cast("list[object] | tuple[object, ...]", value)
            return [self.of(item, depth + 1) for item in items]
        raise self._fault(f"a value of type {type(value).__name__}", _PLAIN)

    def _mapping(self, value: Mapping[object, object], depth: int) -> JsonValue:
        copy: dict[str, JsonValue] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise self._fault(f"a key of type {type(key).__name__}", _PLAIN)
            copy[self._text(key)] = self.of(item, depth + 1)
        return copy

    def _text(self, value: str) -> str:
        self._spend(len(value))
        wrong = encoding_fault(value)
        if wrong is not None:
            raise self._fault(f"a text that {wrong}", "text that can be written as UTF-8, without NUL")
        return str.__str__(value)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise _too_large(self._field, "is too large", self._max_bytes)

    def _fault(self, what: str, limit: str) -> SubagentLifecycleError:
        mend = "convert it to plain, small JSON first"
        return SubagentLifecycleError(f"contains {what}", field=self._field, limit=limit, mend=mend)


def mappings(value: object) -> Iterator[Mapping[str, JsonValue]]:
    """Every mapping within a JSON value whose depth is bounded, each before what it holds."""
    if isinstance(value, Mapping):
        found = cast("Mapping[str, JsonValue]", value)
        yield found
        for item in found.values():
            yield from mappings(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from mappings(item)


def _too_large(field: str, wrong: str, max_bytes: int) -> SubagentLifecycleError:
    limit = f"at most {max_bytes:,} bytes of sorted JSON with ASCII escapes"
    mend = "store the rest elsewhere and give its key"
    return SubagentLifecycleError(wrong, field=field, limit=limit, mend=mend)
