"""The ring of handle keys: from the settings, or else one that the store makes at first use and keeps.

Every process that shares the store so signs and accepts the same handles, without any configuration.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from retinue.contract import HandleKey, HandleKeyState, Keyring, StoreReplyError, SubagentHandle
from retinue.store import keys
from retinue.store.call import CommandCall, mapping

if TYPE_CHECKING:
    from retinue.broker.settings.sections import HandleKeySettings

T = TypeVar("T")
FIRST_KID = "k1"
_SECRET_BYTES = 32


class Runs(Protocol):
    """A store, such as `Store`."""

    def run(self, call: CommandCall[T], /) -> T: ...


class AwaitableRuns(Protocol):
    """A store, such as `AsyncStore`."""

    async def run(self, call: CommandCall[T], /) -> T: ...


def ring_of(configured: Sequence[HandleKeySettings]) -> Keyring | None:
    """The ring that the settings name; None = they leave it to the store."""
    if not configured:
        return None
    return Keyring(
        HandleKey(key.kid, key.secret.get_secret_value().encode(), HandleKeyState(key.state))
        for key in configured
    )


def read_ring() -> CommandCall[Keyring | None]:
    """The ring in the store; None = there is none yet."""
    return CommandCall(("HGETALL", keys.KEYRING), _ring)


def make_first_key() -> CommandCall[bool]:
    """Puts a first key into the store, unless there is one: of two processes at once one wins."""
    value = {
        "secret": secrets.token_hex(_SECRET_BYTES),
        "state": "sign",
        "made_ms": round(time.time() * 1000),
    }
    return CommandCall(("HSETNX", keys.KEYRING, FIRST_KID, json.dumps(value)), bool)


def key_id(handle: SubagentHandle) -> str:
    """The id of the key that a handle names as its signer."""
    return handle.capability.split(".")[1] if handle.capability.count(".") == 2 else ""


class KeyringStore:
    """The ring of this process: read once, and again for a handle that names a key it does not know.

    Args:
        store: Where the ring is kept if the settings name none.
        configured: The settings' handle_keys.
    """

    def __init__(self, store: Runs, configured: Sequence[HandleKeySettings] = ()) -> None:
        self._store = store
        self._configured = ring_of(configured)
        self._kept: Keyring | None = None

    def ring(self) -> Keyring:
        """The ring, made if there is none.

        Raises:
            StoreError: It has to be read, and cannot be.
            SettingsError: A key in it is malformed.
        """
        return self._configured or self._kept or self._read()

    def verify(self, tenant: str, handle: SubagentHandle) -> bool:
        """Whether a key of the ring signed exactly this handle for this tenant.

        Raises:
            StoreError, SettingsError: As for `ring`.
        """
        ring = self.ring()
        if ring.verify(tenant, handle):
            return True
        if self._configured is not None or key_id(handle) in ring.kids:
            return False
        # Another process may have rotated the keys since.
        return self._read().verify(tenant, handle)

    def _read(self) -> Keyring:
        ring = self._store.run(read_ring())
        if ring is None:
            self._store.run(make_first_key())
            ring = self._store.run(read_ring())
        self._kept = _present(ring)
        return self._kept


class AsyncKeyringStore:
    """Mirrors `KeyringStore`."""

    def __init__(self, store: AwaitableRuns, configured: Sequence[HandleKeySettings] = ()) -> None:
        self._store = store
        self._configured = ring_of(configured)
        self._kept: Keyring | None = None

    async def ring(self) -> Keyring:
        """Mirrors `KeyringStore.ring`."""
        return self._configured or self._kept or await self._read()

    async def verify(self, tenant: str, handle: SubagentHandle) -> bool:
        """Mirrors `KeyringStore.verify`."""
        ring = await self.ring()
        if ring.verify(tenant, handle):
            return True
        if self._configured is not None or key_id(handle) in ring.kids:
            return False
        return (await self._read()).verify(tenant, handle)

    async def _read(self) -> Keyring:
        ring = await self._store.run(read_ring())
        if ring is None:
            await self._store.run(make_first_key())
            ring = await self._store.run(read_ring())
        self._kept = _present(ring)
        return self._kept


def _ring(reply: Any) -> Keyring | None:
    stored = mapping(reply)
    if not stored:
        return None
    made: list[tuple[int, HandleKey]] = []
    for kid, raw in stored.items():
        try:
            value = json.loads(raw)
            key = HandleKey(kid, bytes.fromhex(value["secret"]), HandleKeyState(value["state"]))
            made.append((int(value.get("made_ms", 0)), key))
        except (ValueError, KeyError, TypeError):
            # Without the cause: the text of a JSON error quotes what it read.
            raise StoreReplyError(f"the key {kid!r} in {keys.KEYRING} is malformed") from None
    # A hash has no order, and the youngest key that may sign is the one that signs.
    made.sort(key=lambda entry: (entry[0], entry[1].kid))
    return Keyring(key for _, key in made)


def _present(ring: Keyring | None) -> Keyring:
    if ring is None:
        raise StoreReplyError(f"{keys.KEYRING} was removed while it was being made")
    return ring
