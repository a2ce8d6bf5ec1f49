from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.contract import (
    HandleKey,
    HandleKeyState,
    Keyring,
    SettingsError,
    SubagentHandle,
    SubagentLifecycleError,
    coerce_handle,
)

RING = Keyring([HandleKey("k1", b"s" * 32, HandleKeyState.SIGN)])
FIELDS: dict[str, object] = {
    "subagent_id": "sa-p07-3cjiuinqveh76vtgvxocv7v7ou",
    "parent_session_id": "customer-42",
    "correlation_id": "ticket-9001",
    "created_at": 1_700_000_000.123456,
    "provider": "openai",
    "model": "gpt-5-mini",
    "role": "leaf",
    "depth": 1,
}
HANDLE = RING.mint("_", FIELDS)


class HostileMapping(Mapping[str, object]):
    """A caller's mapping that fails at every touch."""

    def __getitem__(self, key: str) -> object:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return -1


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: list[object] = [
    None,
    42,
    True,
    "x",
    b"x",
    "",
    "\ud800",
    "a\0b",
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -0.5,
    10**5_000,
    object(),
    [],
    {},
    nested(50_000),
    HostileMapping(),
    SubagentHandle,
]


def altered(**changes: object) -> dict[str, object]:
    return {**HANDLE.to_dict(), **changes}


def test_a_handle_goes_through_json_and_comes_back_equal() -> None:
    again = SubagentHandle.from_dict(json.loads(json.dumps(HANDLE.to_dict())))
    assert again == HANDLE
    assert RING.verify("_", again)


def test_a_handle_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(HANDLE)) == HANDLE


def test_a_handle_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        HANDLE.depth = 0  # pyright: ignore[reportAttributeAccessIssue]


def test_the_capability_is_not_in_the_repr() -> None:
    assert HANDLE.capability not in repr(HANDLE)
    assert HANDLE.capability not in str(HANDLE)


def test_a_time_that_a_json_writer_made_an_integer_is_the_same_time() -> None:
    handle = RING.mint("_", {**FIELDS, "created_at": 1_700_000_000.0})
    assert RING.verify("_", {**handle.to_dict(), "created_at": 1_700_000_000})


@pytest.mark.parametrize("key", sorted(HANDLE.to_dict()))
def test_a_handle_that_lacks_a_field_is_refused_by_name(key: str) -> None:
    fields = HANDLE.to_dict()
    del fields[key]
    with pytest.raises(SubagentLifecycleError, match=key):
        SubagentHandle.from_dict(fields)
    assert coerce_handle(fields) is None


def test_a_handle_with_an_extra_field_is_refused() -> None:
    with pytest.raises(SubagentLifecycleError, match="unknown fields"):
        SubagentHandle.from_dict(altered(color="red"))


@pytest.mark.parametrize("version", [True, 1.0, "1", 2, 0, None])
def test_the_contract_version_is_exactly_the_integer_one(version: object) -> None:
    with pytest.raises(SubagentLifecycleError, match="contract_version"):
        SubagentHandle.from_dict(altered(contract_version=version))


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0, True, "1", None, 10**400])
def test_created_at_is_a_finite_time(at: object) -> None:
    with pytest.raises(SubagentLifecycleError, match="created_at"):
        SubagentHandle.from_dict(altered(created_at=at))


@pytest.mark.parametrize("value", [42, None, "x", [HANDLE]])
def test_from_dict_names_the_type_it_expects(value: Any) -> None:
    with pytest.raises(SubagentLifecycleError, match="mapping"):
        SubagentHandle.from_dict(value)


@pytest.mark.parametrize("key", sorted(HANDLE.to_dict()))
def test_no_field_of_any_wrong_kind_ever_raises_or_verifies(key: str) -> None:
    for value in WRONG:
        if value == HANDLE.to_dict()[key] and type(value) is type(HANDLE.to_dict()[key]):
            continue
        fields = altered(**{key: value})
        coerce_handle(fields)
        assert not RING.verify("_", fields), (key, type(value))


def test_no_wrong_value_ever_raises_or_verifies() -> None:
    for value in WRONG:
        assert coerce_handle(value) is None
        assert not RING.verify("_", value)


def test_a_handle_made_by_hand_with_wrong_types_is_not_taken_for_one() -> None:
    forged = SubagentHandle(**altered(contract_version=True))  # pyright: ignore[reportArgumentType]
    assert coerce_handle(forged) is None
    assert not RING.verify("_", forged)
    bare = object.__new__(SubagentHandle)  # slots without values
    assert coerce_handle(bare) is None
    assert not RING.verify("_", bare)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(ANYTHING | st.dictionaries(st.sampled_from(sorted(HANDLE.to_dict())), ANYTHING))
def test_arbitrary_values_never_raise_and_never_verify(value: object) -> None:
    assert coerce_handle(value) is None
    assert RING.verify("_", value) is False


@given(st.sampled_from(sorted(HANDLE.to_dict())), ANYTHING, ANYTHING)
def test_a_genuine_handle_with_one_arbitrary_field_never_raises(
    key: str, value: object, tenant: object
) -> None:
    fields = altered(**{key: value})
    coerce_handle(fields)
    genuine = coerce_handle(fields) == HANDLE
    assert RING.verify("_", fields) is genuine
    assert RING.verify(tenant, fields) is False  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("subagent_id", "sa-p07-6wfpgrrqmiqrbektdv7xrf3wa4"),
        ("parent_session_id", "customer-43"),
        ("correlation_id", "ticket-9002"),
        ("correlation_id", None),
        ("created_at", 1_700_000_000.123457),
        ("provider", None),
        ("model", "gpt-5"),
        ("role", "orchestrator"),
        ("depth", 0),
        ("capability", HANDLE.capability[:-1] + ("A" if HANDLE.capability[-1] != "A" else "E")),
        ("capability", HANDLE.capability + "="),
        ("capability", "v2" + HANDLE.capability[2:]),
        ("capability", "v1.k1."),
        ("capability", "v1.k9." + HANDLE.capability.split(".")[2]),
        ("capability", "v1.k1.é"),
    ],
)
def test_a_well_formed_handle_with_one_field_altered_is_forged(key: str, value: object) -> None:
    forged = altered(**{key: value})
    assert coerce_handle(forged) is not None
    assert not RING.verify("_", forged)


def test_no_tenant_of_any_wrong_kind_ever_raises_or_verifies() -> None:
    for tenant in [*WRONG, "no:tenant", "t" * 65]:
        assert RING.verify(tenant, HANDLE) is False  # pyright: ignore[reportArgumentType]


def test_an_empty_text_is_not_taken_for_an_absent_one() -> None:
    handle = RING.mint("_", {**FIELDS, "correlation_id": None})
    assert RING.verify("_", handle)
    assert not RING.verify("_", {**handle.to_dict(), "correlation_id": ""})


def test_a_handle_is_good_for_its_tenant_only() -> None:
    assert RING.verify("_", HANDLE)
    assert not RING.verify("other", HANDLE)
    with pytest.raises(SubagentLifecycleError, match="tenant"):
        RING.mint("no:tenant", FIELDS)


@pytest.mark.parametrize(
    "fields", [{}, {**FIELDS, "depth": -1}, {**FIELDS, "extra": 1}, {**FIELDS, "role": "boss"}]
)
def test_minting_from_wrong_fields_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SubagentLifecycleError):
        RING.mint("_", fields)


def test_the_mac_is_pinned_so_that_handles_outlive_an_upgrade() -> None:
    handle = RING.mint("_", {**FIELDS, "subagent_id": "sa-p07-" + "a" * 26, "correlation_id": "日本"})
    assert handle.capability == "v1.k1.V1YRICI8eJGeCyXoB3fy-1As6-oLDSIlMNm4tfj4qmc"


def test_a_key_is_rotated_without_a_handle_dying() -> None:
    old, new = b"o" * 32, b"n" * 32
    before = Keyring([HandleKey("old", old, HandleKeyState.SIGN)])
    added = Keyring(
        [HandleKey("old", old, HandleKeyState.SIGN), HandleKey("new", new, HandleKeyState.VERIFY)]
    )
    switched = Keyring(
        [HandleKey("old", old, HandleKeyState.VERIFY), HandleKey("new", new, HandleKeyState.SIGN)]
    )
    retired = Keyring([HandleKey("new", new, HandleKeyState.SIGN)])
    first, second, third = (ring.mint("_", FIELDS) for ring in (before, added, switched))
    assert third.capability.startswith("v1.new.")
    assert all(ring.verify("_", handle) for ring in (before, added, switched) for handle in (first, second))
    assert added.verify("_", third)
    assert retired.verify("_", third)
    assert not retired.verify("_", first)


def test_of_several_signing_keys_the_last_one_signs() -> None:
    ring = Keyring([HandleKey("a", b"a" * 16), HandleKey("b", b"b" * 16)])
    assert ring.mint("_", FIELDS).capability.startswith("v1.b.")
    assert ring.kids == ("a", "b")


@pytest.mark.parametrize(
    ("kid", "secret", "state"),
    [
        ("", b"s" * 16, "sign"),
        ("a.b", b"s" * 16, "sign"),
        ("a", b"s" * 15, "sign"),
        ("a", "s" * 16, "sign"),
        ("a", b"s" * 16, "x"),
    ],
)
def test_a_bad_key_is_refused(kid: str, secret: Any, state: Any) -> None:
    with pytest.raises(SettingsError, match="handle_keys"):
        HandleKey(kid, secret, state)


def test_a_ring_needs_different_keys_and_one_that_signs() -> None:
    with pytest.raises(SettingsError, match="share the id"):
        Keyring([HandleKey("a", b"s" * 16), HandleKey("a", b"t" * 16)])
    with pytest.raises(SettingsError, match="no key may sign"):
        Keyring([HandleKey("a", b"s" * 16, HandleKeyState.VERIFY)])
    with pytest.raises(SettingsError, match="no key may sign"):
        Keyring([])


def test_a_key_given_with_its_state_as_text_works_the_same() -> None:
    assert Keyring([HandleKey("k1", b"s" * 32, "sign")]).verify("_", HANDLE)  # pyright: ignore[reportArgumentType]


def test_secrets_are_in_no_repr() -> None:
    key = HandleKey("k1", b"very-secret-bytes")
    assert "very-secret" not in repr(key) + repr(Keyring([key]))
