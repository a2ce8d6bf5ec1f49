"""What was found out about an object, remembered for as long as that very object lives."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by object, told apart by identity, and forgotten with the object.

    Equality would not do: `True == 1`, so what was checked of one object need not hold for its equal.
    Safe to share between OS threads.
    """

    def __init__(self) -> None:
        self._kept: dict[int, _Kept[V]] = {}
        # Made once: a bound method for each object would be one more thing to keep.
        self._on_end = self._forget

    def get(self, thing: object) -> V | None:
        """What is remembered of exactly this object; None = nothing."""
        kept = self._kept.get(id(thing))
        return kept.value if kept is not None and kept() is thing else None

    def put(self, thing: object, value: V) -> None:
        """Remembers a value of an object.

        Args:
            thing: Of a class whose objects can be weakly referred to, and cannot be changed.
        """
        kept: _Kept[V] = _Kept(thing, self._on_end)
        kept.key, kept.value = id(thing), value
        self._kept[kept.key] = kept

    def _forget(self, ended: weakref.ref[object]) -> None:
        # Without a look at its class: when the interpreter ends, names of modules go before objects.
        self._kept.pop(ended.key, None)  # pyright: ignore[reportAttributeAccessIssue] - always a _Kept


class _Kept(weakref.ref[object], Generic[V]):
    """One object with what is remembered of it."""

    __slots__ = ("key", "value")
    key: int
    value: V
