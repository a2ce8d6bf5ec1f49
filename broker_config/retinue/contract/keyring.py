"""The keys that sign handles, so that a handle proves itself in every process that has the keys."""

from __future__ import annotations

import binascii
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, cast

from .canonical import canonical_json
from .errors import SettingsError
from .handle import SubagentHandle, checked_fields, coerce_handle, handle_of_checked
from .identity import Remembered
from .ids import validate_tenant

SECRET_MIN_BYTES: Final = 16
_SCHEME: Final = "v1"
_DOMAIN: Final = b"retinue.handle.v1\0"  # a MAC made with the same secret for another purpose is no handle
_KID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)


class HandleKeyState(StrEnum):
    """The place of a key in a rotation: it is added as verify, becomes sign, then verify, then goes."""

    VERIFY = "verify"  # old handles stay good; no new ones
    SIGN = "sign"  # new handles too


@dataclass(frozen=True, slots=True)
class HandleKey:
    """One secret, known to every process that launches or resolves handles.

    Raises:
        SettingsError: a key id that is not 1 to 32 of letters, digits, ``_`` and ``-``; a secret of
            fewer than 16 bytes; a state that is none.
    """

    kid: str
    secret: bytes = field(repr=False)
    state: HandleKeyState = HandleKeyState.SIGN

    def __post_init__(self) -> None:
        if _KID.fullmatch(self.kid) is None:
            raise _fault("a key id has other characters, or another length", "use 1 to 32 of A-Z a-z 0-9 _ -")
        if not isinstance(cast("object", self.secret), bytes) or len(self.secret) < SECRET_MIN_BYTES:
            mend = f"use at least {SECRET_MIN_BYTES} random bytes"
            raise _fault(f"the secret of key {self.kid} is too short, or not of type bytes", mend)
        if self.state not in tuple(HandleKeyState):
            raise _fault(f"key {self.kid} has no such state", "use 'verify' or 'sign'")


class Keyring:
    """Signs new handles and tells genuine ones from others.

    Args:
        keys: with different ids. The last one in the state `sign` signs; every one verifies.

    Raises:
        SettingsError: two keys share an id, or none may sign.
    """

    def __init__(self, keys: Iterable[HandleKey]) -> None:
        self._secrets: dict[str, bytes] = {}
        signer: str | None = None
        for key in keys:
            if key.kid in self._secrets:
                raise _fault(f"two keys share the id {key.kid}", "give each key an id of its own")
            self._secrets[key.kid] = key.secret
            if key.state == HandleKeyState.SIGN:
                signer = key.kid
        if signer is None:
            raise _fault("no key may sign", "set the state of one key to 'sign'")
        self._signer = signer
        self._genuine = Remembered[str]()

    def __repr__(self) -> str:
        return f"Keyring(kids={sorted(self._secrets)}, signer={self._signer!r})"

    @property
    def kids(self) -> tuple[str, ...]:
        """The ids of all keys, sorted; two processes with the same ones accept the same handles."""
        return tuple(sorted(self._secrets))

    def mint(self, tenant: str, fields: Mapping[str, object]) -> SubagentHandle:
        """A signed handle.

        Args:
            tenant: the run's tenant; the handle is good for no other one.
            fields: those of SubagentHandle without contract_version and capability.

        Raises:
            SubagentLifecycleError: a field is missing, unknown or of the wrong type or form.
        """
        validate_tenant(tenant)
        unsigned = checked_fields({"contract_version": 1, **fields, "capability": "unsigned"})
        del unsigned["capability"]
        capability = _capability(self._signer, self._secrets[self._signer], tenant, unsigned)
        handle = handle_of_checked({**unsigned, "capability": capability})
        self._genuine.put(handle, tenant)
        return handle

    def verify(self, tenant: str, handle: object) -> bool:
        """Whether this ring signed exactly this handle for this tenant. Never raises.

        Args:
            tenant: the tenant of whoever presents it.
            handle: anything; a malformed handle is simply not genuine.
        """
        well_formed = coerce_handle(handle)
        if well_formed is None:
            return False
        # A waiter shows the same handle again and again, and no object of the class can be changed.
        if isinstance(cast("object", tenant), str) and self._genuine.get(well_formed) == tenant:
            return True
        if not _is_tenant(tenant) or not well_formed.capability.isascii():
            return False
        parts = well_formed.capability.split(".")
        secret = self._secrets.get(parts[1]) if len(parts) == 3 else None
        if secret is None:
            return False
        genuine = _capability(parts[1], secret, tenant, well_formed.unsigned())
        is_genuine = hmac.compare_digest(genuine.encode(), well_formed.capability.encode())
        if is_genuine:
            self._genuine.put(well_formed, tenant)
        return is_genuine


def _capability(kid: str, secret: bytes, tenant: str, unsigned: Mapping[str, object]) -> str:
    message = _DOMAIN + canonical_json({"tenant": tenant, **unsigned}).encode()
    mac = binascii.b2a_base64(hmac.digest(secret, message, "sha256"), newline=False).decode("ascii")
    return f"{_SCHEME}.{kid}.{mac.rstrip('=').replace('+', '-').replace('/', '_')}"


def _is_tenant(tenant: object) -> bool:
    try:
        validate_tenant(tenant)
    except ValueError:
        return False
    return True


def _fault(message: str, mend: str) -> SettingsError:
    return SettingsError(message, setting="handle_keys", mend=mend)
