"""API keys: who may use the HTTP API, for which tenant, and for what.

A key's text is `rtn_<id>_<secret>`. It is shown once, when it is made; the store keeps the digest of its
secret. That has 160 random bits, so that a plain digest is as good as a slow one, and a look-up costs next to
nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from base64 import b32encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from retinue.contract import StoreReplyError, SubagentLifecycleError, validate_tenant
from retinue.store import keys
from retinue.store.call import CommandCall, ScriptCall, mapping
from retinue.store.scripts import script

NAME_MAX_CHARS: Final = 100
EXPIRES_MAX_DAYS: Final = 36_500
DAY_S: Final = 86_400
_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 20
_TEXT: Final = re.compile(r"rtn_([a-z2-7]{12})_([a-z2-7]{32})", re.ASCII)
_KEY_ID: Final = re.compile(r"[a-z2-7]{12}", re.ASCII)
_PRINTABLE: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")
_NO_KEY: Final = ("aaaaaaaaaaaa", "0" * 64)

T = TypeVar("T")


class Scope(StrEnum):
    """What a key lets its holder do."""

    READ = "run:read"
    WRITE = "run:write"  # launch and control; what is written may be read
    ADMIN = "admin"  # workers, dead letters, webhooks, and all of the others


class Runs(Protocol):
    """A store, such as `Store`."""

    def run(self, call: CommandCall[T], /) -> T: ...


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as the store keeps it.

    Args:
        key_id: Names it in lists, logs and limits; it opens nothing.
        tenant: Whose runs it leads to.
        scopes: What its holder may do.
        name: What it is for, in its maker's words.
        created_at: Epoch seconds.
        expires_at: Epoch seconds. None = never.
        revoked_at: Epoch seconds. None = it is not.
    """

    key_id: str
    tenant: str
    scopes: frozenset[Scope]
    name: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    @classmethod
    def from_row(cls, key_id: str, raw: str, revoked_ms: str | None = None) -> ApiKey:
        """The key that `draft_key` wrote.

        Args:
            raw: As it stands in the store.
            revoked_ms: When it was revoked. None = it is not.

        Raises:
            StoreReplyError: That was written by nobody who knows how.
        """
        try:
            row = json.loads(raw)
            expires_ms = row["expires_ms"]
            return cls(
                key_id,
                str(row["tenant"]),
                frozenset(Scope(each) for each in row["scopes"]),
                str(row["name"]),
                row["created_ms"] / 1000,
                None if expires_ms is None else expires_ms / 1000,
                None if revoked_ms is None else int(revoked_ms) / 1000,
            )
        except (KeyError, TypeError, ValueError):
            # Without the cause: the text of a JSON error quotes what it read.
            raise StoreReplyError(f"the key {key_id} in {keys.API_KEYS} is malformed") from None

    def is_good(self, now: float) -> bool:
        """Whether it opens anything at a time, in epoch seconds."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "key_id": self.key_id,
            "tenant": self.tenant,
            "scopes": sorted(self.scopes),
            "name": self.name,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key that was just made.

    Args:
        key: As the store keeps it.
        text: What its holder shows with each request; nobody can find it out again.
    """

    key: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShownKey:
    """What a caller showed as its key: an id, and the digest of a secret.

    One that is malformed is looked up like any other, and not found.
    """

    key_id: str
    digest: str = field(repr=False)

    @classmethod
    def of(cls, shown: str) -> ShownKey:
        """Reads a key's text."""
        match = _TEXT.fullmatch(shown)
        return cls(*_NO_KEY) if match is None else cls(match[1], _digest(match[2]))


def create_key(
    store: Runs,
    *,
    tenant: str = "_",
    scopes: Iterable[str] = (Scope.WRITE,),
    name: str = "",
    expires_days: float | None = None,
) -> IssuedKey:
    """Makes a key.

    Args:
        store: Where it is kept.
        tenant: Whose runs it leads to.
        scopes: What its holder may do; at least one `Scope`.
        name: What it is for; up to 100 characters.
        expires_days: After how many days it opens nothing any more. None = it does for good.

    Raises:
        SubagentLifecycleError: One of these breaks its rule.
    """
    issued, write = draft_key(tenant=tenant, scopes=scopes, name=name, expires_days=expires_days)
    store.run(write)
    return issued


def draft_key(
    *, tenant: str, scopes: Iterable[str], name: str, expires_days: float | None
) -> tuple[IssuedKey, CommandCall[None]]:
    """A new key, and the call that puts it into the store; as `create_key`."""
    created_at = round(time.time(), 3)
    lasts_s = None if expires_days is None else _checked_days(expires_days) * DAY_S
    key = ApiKey(
        _base32(_ID_BYTES)[:12],
        validate_tenant(tenant),
        _checked_scopes(scopes),
        _checked_name(name),
        created_at,
        expires_at=None if lasts_s is None else created_at + lasts_s,
    )
    secret = _base32(_SECRET_BYTES)
    row = json.dumps(
        {
            "digest": _digest(secret),
            "tenant": key.tenant,
            "scopes": sorted(key.scopes),
            "name": key.name,
            "created_ms": round(key.created_at * 1000),
            "expires_ms": None if key.expires_at is None else round(key.expires_at * 1000),
        }
    )
    write = CommandCall(("HSET", keys.API_KEYS, key.key_id, row), _ignored)
    return IssuedKey(key, f"rtn_{key.key_id}_{secret}"), write


def list_keys() -> CommandCall[list[ApiKey]]:
    """All keys, the youngest first."""

    def parse(reply: Any) -> list[ApiKey]:
        fields = mapping(reply)
        found = [
            ApiKey.from_row(key_id, raw, fields.get("!" + key_id))
            for key_id, raw in fields.items()
            if not key_id.startswith("!")
        ]
        return sorted(found, key=lambda key: (-key.created_at, key.key_id))

    return CommandCall(("HGETALL", keys.API_KEYS), parse)


def find_ended(key_ids: Sequence[str]) -> CommandCall[frozenset[str]]:
    """Which of some keys were revoked, or are not there. When a key expires it says itself."""

    def parse(reply: Any) -> frozenset[str]:
        rows = zip(key_ids, reply[::2], reply[1::2], strict=True)
        return frozenset(key_id for key_id, raw, revoked_ms in rows if raw is None or revoked_ms is not None)

    fields = (field for key_id in key_ids for field in (key_id, "!" + key_id))
    return CommandCall(("HMGET", keys.API_KEYS, *fields), parse)


def revoke_key(key_id: str) -> ScriptCall[float | None]:
    """Revokes a key, at once and for good; a repeat changes nothing.

    Returns:
        A call that answers when it was revoked, in epoch seconds; None = there is no such key.

    Raises:
        SubagentLifecycleError: That is no key's id.
    """
    if _KEY_ID.fullmatch(key_id) is None:
        raise SubagentLifecycleError(
            "is no key's id",
            field="key_id",
            limit="12 of a-z and 2-7",
            mend="see `retinue keys list`; the id is what stands between rtn_ and the next _",
        )
    return ScriptCall(script("revoke_key"), (keys.API_KEYS,), (key_id,), _seconds)


def _checked_scopes(scopes: Iterable[str]) -> frozenset[Scope]:
    given = [scopes] if isinstance(scopes, str) else list(scopes)
    known = {scope.value for scope in Scope}
    if not given or any(each not in known for each in given):
        raise SubagentLifecycleError(
            "names no scope" if not given else "names an unknown scope",
            field="scopes",
            limit=f"one or more of {', '.join(Scope)}",
            mend="give what the key's holder is to do",
        )
    return frozenset(Scope(each) for each in given)


def _checked_name(name: str) -> str:
    if len(name) > NAME_MAX_CHARS or _PRINTABLE.fullmatch(name) is None:
        raise SubagentLifecycleError(
            "is too long, or has control characters",
            field="name",
            limit=f"up to {NAME_MAX_CHARS} printable characters",
            mend="say in a word or two what the key is for",
        )
    return name


def _checked_days(days: float) -> float:
    if not 0 < days <= EXPIRES_MAX_DAYS:
        raise SubagentLifecycleError(
            "is no time that a key can last",
            field="expires_days",
            limit=f"above 0, up to {EXPIRES_MAX_DAYS:,} days",
            mend="leave it out for a key that does not expire",
        )
    return days


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _base32(count: int) -> str:
    return b32encode(secrets.token_bytes(count)).decode("ascii").rstrip("=").lower()


def _seconds(reply: Any) -> float | None:
    ms = int(reply)
    return ms / 1000 if ms else None


def _ignored(_reply: Any) -> None:
    return None
