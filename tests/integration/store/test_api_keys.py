"""API keys in the store: what is kept of them, who comes in, and how many requests a minute has."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.store.stage import Runner, Stage

from retinue.contract import SubagentLifecycleError
from retinue.store import keys
from retinue.store.operations.admission import Admitted, admit, admit_key
from retinue.store.operations.api_keys import (
    IssuedKey,
    Scope,
    ShownKey,
    create_key,
    list_keys,
    revoke_key,
)


class Door:
    """Keys of the test's own tenant, and what the door says to whoever shows one."""

    def __init__(self, stage: Stage, runner: Runner) -> None:
        self.server = stage.server
        self.tenant = stage.tenant
        self._runner: Any = runner

    def make(self, **options: Any) -> IssuedKey:
        return create_key(self._runner, tenant=self.tenant, **options)

    def show(self, text: str, *, limit: int = 0) -> Admitted | None:
        return self._runner.run(admit_key(ShownKey.of(text), requests_per_minute=limit))

    def count(self, whom: str, *, limit: int) -> int:
        return self._runner.run(admit(whom, requests_per_minute=limit))

    def listed(self) -> list[str]:
        return [key.key_id for key in self._runner.run(list_keys()) if key.tenant == self.tenant]

    def revoke(self, key_id: str) -> float | None:
        return self._runner.run(revoke_key(key_id))

    def age(self, key_id: str, ms: int) -> None:
        """Makes what was counted so much older."""
        rate = keys.request_rate(key_id)
        self.server.set(rate, int(self.server.get(rate)) - ms * 1000, keepttl=True)


@pytest.fixture
def door(stage: Stage, runner: Runner) -> Door:
    return Door(stage, runner)


def test_a_key_lets_its_holder_in_and_the_store_does_not_hold_its_secret(door: Door) -> None:
    issued = door.make(scopes=["run:read", "admin"], name="shop", expires_days=1)
    admitted = door.show(issued.text)
    assert admitted is not None
    assert admitted.key == issued.key
    assert admitted.key.scopes == {Scope.READ, Scope.ADMIN}
    assert issued.key.expires_at == pytest.approx(issued.key.created_at + 86_400)

    _, key_id, secret = issued.text.split("_")
    assert len(secret) == 32, "160 bits in base32"
    stored = door.server.hget(keys.API_KEYS, key_id)
    assert secret not in stored
    assert secret not in repr(issued)
    assert secret not in repr(ShownKey.of(issued.text))
    assert json.loads(stored)["digest"] not in repr(ShownKey.of(issued.text))


def _with_other_secret(text: str) -> str:
    return text[:-1] + ("a" if text[-1] != "a" else "b")


@pytest.mark.parametrize(
    "forge",
    [
        _with_other_secret,
        lambda text: text.upper(),
        lambda text: text + "a",
        lambda text: text[:-1],
        lambda text: text.replace("rtn_", "rtx_"),
        lambda text: "rtn_" + "b" * 12 + text[16:],
        lambda text: "rtn_!" + text[5:],
        lambda text: text.split("_")[2],
        lambda _: "",
        lambda _: "rtn_" + "a" * 12 + "_" + "a" * 32,
        lambda text: text + "\n",
    ],
)
def test_whoever_shows_anything_else_is_answered_alike(door: Door, forge: Callable[[str], str]) -> None:
    issued = door.make()
    assert door.show(forge(issued.text)) is None
    assert door.show(issued.text) is not None


def test_a_revoked_key_opens_nothing_at_once_and_stays_in_the_list(door: Door) -> None:
    first, second = door.make(name="first"), door.make(name="second")
    revoked_at = door.revoke(first.key.key_id)
    assert revoked_at is not None
    assert door.show(first.text) is None
    assert door.show(second.text) is not None
    assert door.revoke(first.key.key_id) == revoked_at, "a repeat changes nothing"
    assert set(door.listed()) == {first.key.key_id, second.key.key_id}
    assert door.revoke("b" * 12) is None


@pytest.mark.parametrize("text", ["", "rtn_" + "a" * 12, "!" + "a" * 11, "A" * 12])
def test_what_is_no_keys_id_is_refused_before_the_store_is_asked(door: Door, text: str) -> None:
    with pytest.raises(SubagentLifecycleError, match=r"key_id: is no key's id .*retinue keys list"):
        door.revoke(text)


def test_an_expired_key_opens_nothing(door: Door) -> None:
    issued = door.make(expires_days=1)
    row = json.loads(door.server.hget(keys.API_KEYS, issued.key.key_id))
    for expires_ms, comes_in in ((row["expires_ms"], True), (row["created_ms"] - 1, False)):
        row["expires_ms"] = expires_ms
        door.server.hset(keys.API_KEYS, issued.key.key_id, json.dumps(row))
        assert (door.show(issued.text) is not None) is comes_in


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["run:everything"]}, "scopes"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"expires_days": 0}, "expires_days"),
        ({"expires_days": float("nan")}, "expires_days"),
        ({"expires_days": 1e9}, "expires_days"),
    ],
)
def test_a_wrong_key_is_not_made(door: Door, options: dict[str, Any], field: str) -> None:
    with pytest.raises(SubagentLifecycleError) as refused:
        door.make(**options)
    assert refused.value.field == field
    assert refused.value.limit
    assert refused.value.mend
    assert door.listed() == []


def test_a_minutes_requests_may_come_at_once_and_then_as_many_as_have_become_free(door: Door) -> None:
    issued = door.make()
    waits = [_wait(door.show(issued.text, limit=6)) for _ in range(8)]
    assert waits[:6] == [0] * 6
    assert 9_000 < waits[6] <= 10_000, "one becomes free each ten seconds"
    assert waits[7] == pytest.approx(waits[6], abs=1_000), "a refused one is not counted"

    door.age(issued.key.key_id, waits[7])
    assert _wait(door.show(issued.text, limit=6)) == 0
    assert _wait(door.show(issued.text, limit=6)) > 0
    assert 0 < door.server.pttl(keys.request_rate(issued.key.key_id)) <= 60_000
    assert _wait(door.show(issued.text, limit=0)) == 0, "no limit"


def _wait(admitted: Admitted | None) -> int:
    assert admitted is not None
    return admitted.wait_ms


def test_whoever_lacks_the_secret_cannot_use_up_a_keys_requests(door: Door) -> None:
    issued = door.make()
    for _ in range(20):
        assert door.show(_with_other_secret(issued.text), limit=2) is None
    assert not door.server.exists(keys.request_rate(issued.key.key_id))
    assert _wait(door.show(issued.text, limit=2)) == 0


def test_a_clock_that_was_set_back_locks_nobody_out(door: Door) -> None:
    whom = f"w{secrets.token_hex(8)}"
    assert door.count(whom, limit=1) == 0
    assert door.count(whom, limit=1) > 0
    door.age(whom, -3_600_000)
    assert door.count(whom, limit=1) == 0


def test_callers_are_counted_apart(door: Door) -> None:
    one, other = f"w{secrets.token_hex(8)}", f"w{secrets.token_hex(8)}"
    assert [door.count(one, limit=1), door.count(other, limit=1)] == [0, 0]
    assert door.count(one, limit=1) > 0


def test_what_is_looked_at_in_one_script_shares_a_slot(door: Door) -> None:
    call = admit_key(ShownKey.of(door.make().text), requests_per_minute=1)
    assert {key.partition("{")[2].partition("}")[0] for key in call.keys} == {"http"}
