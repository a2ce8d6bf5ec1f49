"""What is remembered of an object: by identity, and no longer than it lives."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from retinue.contract import HandleKey, Keyring
from retinue.contract.identity import Remembered

RING = Keyring([HandleKey("k1", b"s" * 32)])
FIELDS: dict[str, object] = {
    "subagent_id": "sa-p07-" + "a" * 26,
    "parent_session_id": "customer-42",
    "correlation_id": None,
    "created_at": 1.0,
    "provider": None,
    "model": None,
    "role": "leaf",
    "depth": 1,
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Thing:
    number: int


def test_what_is_remembered_of_an_object_is_not_remembered_of_its_equal() -> None:
    remembered = Remembered[str]()
    thing = Thing(1)
    remembered.put(thing, "seen")
    assert remembered.get(thing) == "seen"
    assert remembered.get(Thing(1)) is None
    assert remembered.get(None) is None


def test_nothing_is_remembered_of_an_object_that_has_gone() -> None:
    remembered = Remembered[str]()
    thing = Thing(-1)
    for number in range(1_000):
        thing = Thing(number)
        assert remembered.get(thing) is None  # although it often lies where the last one lay
        remembered.put(thing, "seen")
        remembered.put(thing, "seen again")
    assert remembered.get(thing) == "seen again"
    del thing
    assert repr(vars(remembered)["_kept"]) == "{}"


def test_a_genuine_handle_stays_genuine_for_its_tenant_and_its_ring_only() -> None:
    handle = RING.mint("_", FIELDS)
    other = Keyring([HandleKey("k1", b"o" * 32)])
    for _ in range(2):
        assert RING.verify("_", handle)
        assert not RING.verify("acme", handle)
        assert not RING.verify(None, handle)  # pyright: ignore[reportArgumentType]
        assert not other.verify("_", handle)


def test_a_copy_with_other_fields_is_checked_however_often_the_original_was_shown() -> None:
    handle = RING.mint("_", FIELDS)
    assert RING.verify("_", handle)
    assert RING.verify("_", copy.copy(handle))
    # Equal to the original, and malformed: True is no depth.
    forged = replace(handle, depth=True)
    assert forged == handle
    assert not RING.verify("_", forged)
