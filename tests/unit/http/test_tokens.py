"""JSON Web Tokens: which are taken, and which keys the settings may name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, OKPKey, RSAKey

from retinue.broker.settings.http import JwtSettings
from retinue.contract import SettingsError
from retinue.http.tokens import LEEWAY_S, TokenHolder, TokenReader
from retinue.store.operations.api_keys import Scope

ISSUER, AUDIENCE = "https://login.example", "retinue"
RSA = RSAKey.generate_key(2048, {"kid": "r1"})
EC = ECKey.generate_key("P-256", {"kid": "e1"})
OKP = OKPKey.generate_key("Ed25519", {"kid": "o1"})
STRANGER = RSAKey.generate_key(2048, {"kid": "r1"})
RSA_PEM = RSA.as_pem(private=False).decode()


def _settings(keys: str, **changes: Any) -> JwtSettings:
    return JwtSettings.model_validate({"issuer": ISSUER, "audience": AUDIENCE, "keys": keys, **changes})


def _reader(keys: str = RSA_PEM, **changes: Any) -> TokenReader:
    reader = TokenReader.of(_settings(keys, **changes))
    assert reader is not None
    return reader


def _claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "exp": now + 300,
        "tenant": "acme",
        "scope": "openid run:write",
        **changes,
    }
    return {name: value for name, value in made.items() if value is not ...}


def _token(key: Any = RSA, alg: str = "RS256", header: dict[str, Any] | None = None, **claims: Any) -> str:
    return jwt.encode({"alg": alg, **(header or {})}, _claims(**claims), key, algorithms=[alg])


def _unsigned(header: dict[str, Any], signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(_claims()).encode())
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def test_a_genuine_token_names_tenant_scopes_and_subject() -> None:
    expires = int(time.time()) + 300
    holder = TokenHolder("acme", frozenset({Scope.WRITE}), "alice", expires + LEEWAY_S)
    assert _reader().read(_token(exp=expires)) == holder


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("run:read run:write", {Scope.READ, Scope.WRITE}),
        (["admin", 7, "x"], {Scope.ADMIN}),
        ("run:writer", set()),
        (None, set()),
        ({"run:write": True}, set()),
    ],
)
def test_scopes_are_words_or_a_list_of_them_and_others_mean_nothing(
    scope: object, expected: set[Scope]
) -> None:
    holder = _reader().read(_token(scope=scope))
    assert holder is not None
    assert holder.scopes == expected


_TIMES = ("exp", "nbf", "iat")


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": -LEEWAY_S - 5},
        {"exp": ...},
        {"exp": "tomorrow"},
        {"exp": None},
        {"nbf": LEEWAY_S + 60},
        {"iat": LEEWAY_S + 60},
        {"iss": "https://evil.example"},
        {"iss": ...},
        {"aud": "another service"},
        {"aud": ["another service"]},
        {"aud": ...},
        {"aud": []},
        {"sub": ...},
        {"sub": ""},
        {"sub": "a\nb"},
        {"sub": "a" * 201},
        {"tenant": ...},
        {"tenant": ""},
        {"tenant": "acme:{p07}"},
        {"tenant": ["acme"]},
        {"tenant": 7},
    ],
    ids=str,
)
def test_a_token_for_another_time_place_or_nobody_is_not_taken(claims: dict[str, Any]) -> None:
    # Times are seconds from now: the cases are collected at other times in other processes.
    now = int(time.time())
    claims = {
        name: now + value if name in _TIMES and isinstance(value, int) else value
        for name, value in claims.items()
    }
    assert _reader().read(_token(**claims)) is None


def test_clocks_may_be_a_little_apart_and_audiences_several() -> None:
    holder = _reader().read(_token(exp=int(time.time()) - LEEWAY_S // 2, aud=["other", AUDIENCE]))
    assert holder is not None


def test_a_strangers_signature_is_not_taken_whatever_its_key_is_called() -> None:
    assert _reader().read(_token(STRANGER)) is None
    assert _reader().read(_token(STRANGER, header={"kid": "r1"})) is None
    assert _reader().read(_token(STRANGER, header={"jwk": STRANGER.as_dict(private=False)})) is None
    genuine = _token()
    head, payload, signature = genuine.split(".")
    other = _token(tenant="other").split(".")[1]
    assert _reader().read(f"{head}.{other}.{signature}") is None
    assert _reader().read(f"{head}.{payload}.") is None


@pytest.mark.parametrize("name", ["none", "None", "NONE", ""])
def test_no_signature_is_no_signature(name: str) -> None:
    assert _reader().read(_unsigned({"alg": name})) is None


def test_a_public_key_is_no_shared_secret() -> None:
    """RSA's public key is known to all: a token that it 'signs' by HMAC was made by anybody."""
    for secret in (RSA_PEM.encode(), RSA_PEM.strip().encode(), RSA.as_der(private=False)):
        unsigned = _unsigned({"alg": "HS256", "typ": "JWT"}).rpartition(".")[0]
        mac = hmac.digest(secret, unsigned.encode(), hashlib.sha256)
        token = f"{unsigned}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
        assert _reader().read(token) is None


def test_an_algorithm_that_the_settings_do_not_name_is_not_taken() -> None:
    assert _reader().read(_token(alg="RS512")) is None
    assert _reader(algorithms=["RS512"]).read(_token(alg="RS512")) is not None
    assert _reader(algorithms=["RS512"]).read(_token()) is None


@pytest.mark.parametrize("algorithm", ["HS256", "none", "RS257"])
def test_no_setting_allows_shared_secrets_or_none(algorithm: str) -> None:
    with pytest.raises(ValueError, match="algorithms"):
        _settings(RSA_PEM, algorithms=[algorithm])


def test_of_a_set_the_key_is_the_one_that_the_token_names(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(KeySet([RSA, EC, OKP]).as_dict(private=False)))
    reader = _reader(str(path), algorithms=["RS256", "ES256", "Ed25519"])
    for key, alg in ((RSA, "RS256"), (EC, "ES256"), (OKP, "Ed25519")):
        assert reader.read(_token(key, alg, {"kid": key.kid})) is not None
    assert reader.read(_token(RSA, header={"kid": "e1"})) is None, "signed with another key"
    assert reader.read(_token(RSA, header={"kid": "?"})) is None
    assert reader.read(_token(RSA)) is None, "does not say which"


def test_a_key_may_stand_in_a_file_or_in_the_setting_as_pem_or_jwk(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(RSA_PEM)
    for keys in (str(path), RSA_PEM, json.dumps(RSA.as_dict(private=False))):
        assert _reader(keys).read(_token()) is not None
    assert _reader(EC.as_pem(private=False).decode()).read(_token(EC, "ES256")) is not None


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (RSA.as_pem(private=True).decode(), "private key"),
        (json.dumps(EC.as_dict(private=True)), "private key"),
        (json.dumps(OctKey.import_key("s" * 32).as_dict(private=True)), "shared secret"),
        ("-----BEGIN PUBLIC KEY-----\nnonsense", "neither"),
        ("{}", "neither"),
        ('{"keys": []}', "neither"),
        ('{"keys": [{"kty": "?"}]}', "neither"),
        ("{broken", "neither"),
        ("/no/such/file", "cannot be read"),
    ],
)
def test_keys_that_cannot_be_used_stop_the_start_and_are_not_quoted(keys: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what) as refused:
        _reader(keys)
    assert refused.value.setting == "http.jwt.keys"
    assert refused.value.mend
    assert "nonsense" not in str(refused.value)
    assert "s" * 32 not in str(refused.value)


def test_without_the_extra_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "joserfc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(SettingsError, match=r"pip install 'retinue\[jwt\]'"):
        _reader()


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "a.b.c.d.e", "é.é.é", "x" * 9_000, "[" * 5_000])
def test_nonsense_is_no_token_and_raises_nothing(text: str) -> None:
    assert _reader().read(text) is None


def test_without_settings_no_token_is_taken() -> None:
    assert TokenReader.of(None) is None
