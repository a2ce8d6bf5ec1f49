"""JSON Web Tokens of another identity provider, in place of API keys (extra `jwt`).

Only signatures that a public key verifies are taken, and only the algorithms that the settings name: no token
can choose `none`, or turn a public key into a shared secret.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from retinue.contract import SettingsError, SubagentLifecycleError, validate_tenant
from retinue.store.operations.api_keys import Scope

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

    from retinue.broker.settings.http import JwtSettings

LEEWAY_S: Final = 30
"""How far the clocks of the provider and of this machine may be apart."""

_MAX_CHARS: Final = 8_000
_SUBJECT: Final = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)
_SCOPES: Final = {scope.value: scope for scope in Scope}


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Whom a genuine token names.

    Args:
        tenant: Whose runs it leads to.
        scopes: What it allows; other words in its scope claim mean nothing here.
        subject: Who it is, up to 200 printable ASCII characters.
        expires_at: Epoch seconds.
    """

    tenant: str
    scopes: frozenset[Scope]
    subject: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class TokenReader:
    """Reads tokens.

    Args:
        settings: What to insist on.
        keys: The provider's public keys.
    """

    settings: JwtSettings
    keys: KeySet = field(repr=False)

    @classmethod
    def of(cls, settings: JwtSettings | None) -> TokenReader | None:
        """The reader for the settings; None = they want no tokens.

        Raises:
            SettingsError: The extra `jwt` is not installed, or the keys cannot be used.
        """
        return None if settings is None else cls(settings, _key_set(settings.keys))

    def read(self, shown: str) -> TokenHolder | None:
        """Whom a token names; None alike for one that is malformed, forged, expired or for somebody else."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jws import JWSRegistry

        if len(shown) > _MAX_CHARS:
            return None
        allowed = list(self.settings.algorithms)
        try:
            registry = JWSRegistry(algorithms=allowed, strict_check_header=False)
            claims = jwt.decode(shown, self.keys, algorithms=allowed, registry=registry).claims
            self._rules().validate(claims)
        except (JoseError, ValueError, TypeError, RecursionError):
            return None
        return self._holder(claims)

    def _rules(self) -> Any:
        from joserfc.jwt import JWTClaimsRegistry

        return JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.audience},
            exp={"essential": True},
            sub={"essential": True},
        )

    def _holder(self, claims: dict[str, Any]) -> TokenHolder | None:
        subject, tenant = claims["sub"], claims.get(self.settings.tenant_claim)
        if _SUBJECT.fullmatch(subject) is None:
            return None
        try:
            tenant = validate_tenant(tenant)
        except SubagentLifecycleError:
            return None
        scopes = _scopes(claims.get(self.settings.scope_claim))
        return TokenHolder(tenant, scopes, subject, claims["exp"] + LEEWAY_S)


def _scopes(claim: object) -> frozenset[Scope]:
    """The scopes in a claim: words with blanks between them, or a list of words."""
    given = claim.split() if isinstance(claim, str) else claim
    words = cast("list[object]", given) if isinstance(given, list) else []
    return frozenset(_SCOPES[word] for word in words if isinstance(word, str) and word in _SCOPES)


def _key_set(given: str) -> KeySet:
    try:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet, OctKey
    except ModuleNotFoundError:
        raise SettingsError(
            "tokens need joserfc, which is not installed",
            setting="http.jwt",
            mend="pip install 'retinue[jwt]', or take the section out",
        ) from None
    text = given if given.lstrip().startswith(("-----BEGIN", "{")) else _text_of(Path(given))
    try:
        keys = KeySet(_keys_in(text))
    except (JoseError, ValueError, TypeError, KeyError):
        # Without the cause, which may quote what it read.
        raise _bad_keys("holds neither a public key in PEM nor a set of JSON Web Keys") from None
    if not keys.keys:
        raise _bad_keys("holds no key")
    for key in keys:
        if isinstance(key, OctKey):
            raise _bad_keys("holds a shared secret, with which anybody who can check tokens could make them")
        if key.is_private:
            raise _bad_keys("holds a private key, which belongs to whoever issues the tokens")
    return keys


def _keys_in(text: str) -> list[Any]:
    from joserfc.jwk import JWKRegistry, KeySet, import_key

    if text.lstrip().startswith("-----BEGIN"):
        return [_pem(text)]
    value = json.loads(text)
    if "keys" in value:
        return list(KeySet.import_key_set(value))
    return [import_key(value) if "kty" in value else JWKRegistry.import_key(value)]


def _pem(text: str) -> Any:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    for kind in (RSAKey, ECKey, OKPKey):
        try:
            return kind.import_key(text)
        except (JoseError, ValueError, TypeError, AttributeError):
            continue
    raise ValueError("no key of a kind that signs")


def _text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _bad_keys(f"cannot be read: {reason}") from None


def _bad_keys(what: str) -> SettingsError:
    return SettingsError(
        what,
        setting="http.jwt.keys",
        mend="give the path of the provider's JWK set, or of its public key in PEM, or the PEM itself",
    )
