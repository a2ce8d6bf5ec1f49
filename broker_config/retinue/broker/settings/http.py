"""The settings of the HTTP API and its page: where it listens, and what it takes from a caller."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import NoDecode

from retinue.broker.settings.sections import Names, split_commas

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"
]
"""Signatures that a public key verifies."""


class JwtSettings(BaseModel):
    """Which JSON Web Tokens are taken in place of API keys; needs the extra `jwt`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    issuer: str = Field(min_length=1, description="What a token's `iss` must be.")
    audience: str = Field(min_length=1, description="What a token's `aud` must be, or hold.")
    keys: str = Field(
        min_length=1,
        description="Path of the issuer's JWK set, or of its public key in PEM; or the PEM itself.",
    )
    tenant_claim: str = Field(default="tenant", min_length=1, description="Claim that names the tenant.")
    scope_claim: str = Field(
        default="scope", min_length=1, description="Claim with the scopes: words, or a list of them."
    )
    algorithms: Annotated[tuple[Algorithm, ...], NoDecode, BeforeValidator(split_commas)] = Field(
        default=("RS256", "ES256"), min_length=1, description="Signatures that are taken."
    )


class HttpSettings(BaseModel):
    """Where the HTTP API listens, and its limits."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. Any but a loopback address needs an API key or tokens.",
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8580, description="Port of `retinue web`. 0 = any free one."
    )
    allowed_hosts: Names = Field(
        default=(),
        description="Names that a request's Host header may bear besides the loopback ones; `*` = any. "
        "Empty = on a loopback address those alone, on another address any.",
    )
    max_body_bytes: int = Field(
        default=2_097_152, ge=1_024, description="Longest body of a request, in bytes."
    )
    max_json_depth: int = Field(
        default=64, ge=8, le=128, description="Deepest nesting of arrays and objects in a body."
    )
    request_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="How long a request's head, and then its body, may take to arrive, in seconds.",
    )
    requests_per_minute: int = Field(
        default=6_000, ge=0, description="Requests of one key in one minute. 0 = no limit."
    )
    jwt: JwtSettings | None = Field(
        default=None, description="Tokens that are taken in place of API keys. None = no tokens."
    )
    max_streams: int = Field(
        default=2_000, ge=0, description="Event streams of one process at a time. 0 = none allowed."
    )
    stream_keep_alive_seconds: float = Field(
        default=15.0,
        gt=0,
        allow_inf_nan=False,
        description="After how long without an event a stream sends a comment, in seconds.",
    )
    stream_send_timeout_seconds: float = Field(
        default=30.0,
        gt=0,
        le=3_600,
        allow_inf_nan=False,
        description="How long a stream's client may take nothing of what it is sent, in seconds.",
    )
    webhook_allow_http: bool = Field(
        default=False, description="Whether webhooks may be posted to http:// URLs, in clear text."
    )
    webhook_allow_private_targets: bool = Field(
        default=False,
        description="Whether webhooks may reach private and loopback addresses; not link-local ones.",
    )
    webhook_private_hosts: Names = Field(
        default=(),
        description="Hosts, addresses and networks (10.1.0.0/16) that webhooks may reach though not public.",
    )
    webhook_timeout_seconds: float = Field(
        default=10.0,
        gt=0,
        le=120,
        allow_inf_nan=False,
        description="Limit of one attempt at a delivery, from looking up the host to the status, in seconds.",
    )
    webhook_retry_seconds: tuple[Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False)], ...] = Field(
        default=(5, 30, 120, 600, 3_600, 21_600, 86_400),
        description="Pauses between the attempts at a delivery, in seconds; after the last it is given up.",
    )
    max_webhooks: int = Field(
        default=20, ge=0, description="Endpoints of one tenant. 0 = none may be registered."
    )
    readiness_seconds: float = Field(
        default=5.0,
        gt=0,
        le=10,
        allow_inf_nan=False,
        description="How long a worker may leave a readiness probe's canary in its queue, in seconds.",
    )
    stop_seconds: int = Field(
        default=10,
        ge=1,
        description="How long requests in flight may go on after SIGTERM, in seconds. "
        "Streams and waits end at once.",
    )
