"""The ring of handle keys that the store keeps, and the one that settings bring."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.client.conftest import Facades
from tests.integration.client.store_worker import StoreWorker

from retinue.broker.keyring_store import AsyncKeyringStore, KeyringStore, make_first_key, read_ring
from retinue.broker.settings.sections import HandleKeySettings
from retinue.client import SubagentLifecycleError
from retinue.contract import StoreReplyError
from retinue.store import keys
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.store.store import AsyncStore, Store

FIELDS: dict[str, object] = {
    "subagent_id": "sa-p07-" + "a" * 26,
    "parent_session_id": "customer-42",
    "correlation_id": None,
    "created_at": 1.5,
    "provider": None,
    "model": None,
    "role": "leaf",
    "depth": 0,
}


@pytest.fixture
def link(fresh_store_url: str) -> Iterator[SyncLink]:
    made = SyncLink(fresh_store_url)
    yield made
    made.close()


def add_key(link: SyncLink, kid: str, *, state: str = "sign", made_ms: int) -> None:
    value = {"secret": secrets.token_hex(32), "state": state, "made_ms": made_ms}
    link.execute("HSET", keys.KEYRING, kid, json.dumps(value))


def test_processes_that_start_at_once_agree_on_the_first_key(fresh_store_url: str) -> None:
    rings: list[Any] = []

    def start() -> None:
        link = SyncLink(fresh_store_url)
        rings.append(KeyringStore(Store(link)).ring())
        link.close()

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    handle = rings[0].mint("_", FIELDS)
    assert len(rings) == 8
    assert all(ring.verify("_", handle) for ring in rings)


def test_the_second_of_two_first_keys_is_not_taken(link: SyncLink) -> None:
    store = Store(link)
    # Both have seen that there is none.
    assert (store.run(read_ring()), store.run(read_ring())) == (None, None)
    assert store.run(make_first_key()) is True
    handle = KeyringStore(store).ring().mint("_", FIELDS)
    assert store.run(make_first_key()) is False
    assert KeyringStore(store).verify("_", handle)


def test_a_handle_of_a_younger_key_makes_a_process_read_the_ring_again(link: SyncLink) -> None:
    old = KeyringStore(Store(link))
    before = old.ring().mint("_", FIELDS)
    add_key(link, "k2", made_ms=9_000_000_000_000)
    young = KeyringStore(Store(link))
    handle = young.ring().mint("_", FIELDS)
    assert handle.capability.startswith("v1.k2.")
    assert old.verify("_", handle)
    assert old.verify("_", before)
    assert not old.verify("other", handle)


def test_a_key_that_only_verifies_signs_nothing(link: SyncLink) -> None:
    KeyringStore(Store(link)).ring()
    add_key(link, "k2", state="verify", made_ms=9_000_000_000_000)
    assert KeyringStore(Store(link)).ring().mint("_", FIELDS).capability.startswith("v1.k1.")


def test_a_forged_key_name_costs_one_read_and_is_refused(link: SyncLink) -> None:
    ring = KeyringStore(Store(link))
    handle = ring.ring().mint("_", FIELDS)
    forged = type(handle).from_dict({**handle.to_dict(), "capability": "v1.k9.abc"})
    assert not ring.verify("_", forged)


@pytest.mark.parametrize("raw", ["{", "{}", '{"secret": "zz", "state": "sign"}', "[1]"])
def test_a_malformed_key_is_named_without_its_content(link: SyncLink, raw: str) -> None:
    link.execute("HSET", keys.KEYRING, "k1", raw)
    with pytest.raises(StoreReplyError, match="'k1'") as caught:
        KeyringStore(Store(link)).ring()
    assert "zz" not in str(caught.value)


async def test_the_asynchronous_store_agrees_with_the_synchronous_one(
    link: SyncLink, fresh_store_url: str
) -> None:
    async_link = AsyncLink(fresh_store_url)
    ring = AsyncKeyringStore(AsyncStore(async_link))
    handle = (await ring.ring()).mint("_", FIELDS)
    assert KeyringStore(Store(link)).verify("_", handle)
    add_key(link, "k2", made_ms=9_000_000_000_000)
    young = KeyringStore(Store(link)).ring().mint("_", FIELDS)
    assert await ring.verify("_", young)
    await async_link.close()


def test_keys_of_the_settings_leave_the_store_alone(link: SyncLink) -> None:
    configured = [HandleKeySettings(kid="mine", secret=secrets.token_urlsafe(32), state="sign")]
    ring = KeyringStore(Store(link), configured)
    handle = ring.ring().mint("_", FIELDS)
    assert handle.capability.startswith("v1.mine.")
    assert ring.verify("_", handle)
    assert not KeyringStore(Store(link)).verify("_", handle)
    assert link.execute("HKEYS", keys.KEYRING) == [b"k1"]


def test_rotation_in_the_settings_keeps_old_handles_good(facades: Facades, worker: StoreWorker) -> None:
    old, new = (secrets.token_urlsafe(32) for _ in range(2))
    first = facades(handle_keys=[{"kid": "a", "secret": old, "state": "sign"}])
    handle = first.launch(agent="support", goal="x")
    rotated = facades(
        handle_keys=[
            {"kid": "a", "secret": old, "state": "verify"},
            {"kid": "b", "secret": new, "state": "sign"},
        ]
    )
    assert rotated.status(handle).state == "PENDING"
    assert rotated.launch(agent="support", goal="y").capability.startswith("v1.b.")
    retired = facades(handle_keys=[{"kid": "b", "secret": new, "state": "sign"}])
    assert retired.status(handle).state == "UNKNOWN"


def test_a_broken_ring_is_the_facades_error(facades: Facades, worker: StoreWorker) -> None:
    worker.link.execute("HSET", keys.KEYRING, "k1", "{")
    with pytest.raises(SubagentLifecycleError, match="malformed"):
        facades().launch(agent="support", goal="x")
