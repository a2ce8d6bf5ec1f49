"""What the settings say about the tools of Agent Spec documents that are answered over the network.

Separate from the documents because addresses within the operator's network and credentials are his alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator

from retinue.broker.settings.sections import Names

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _http_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must start with https:// or http://")
    return value


HttpUrl = Annotated[str, AfterValidator(_http_url)]


class AgentSpecSettings(BaseModel):
    """Rules for Agent Spec documents."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    allow_embedded_secrets: bool = Field(
        default=False,
        description="Whether documents of this process's own modules may hold credentials, kept in memory.",
    )


class RemoteToolOverride(BaseModel):
    """What is added to one RemoteTool, by its name."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    url: HttpUrl | None = Field(
        default=None,
        description="URL used in place of the document's, with its placeholders. None = that one.",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Headers sent with each request: the place for credentials."
    )


class RemoteToolSettings(BaseModel):
    """Rules for the requests of RemoteTools; which hosts may be reached holds for MCP servers as well."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    allow_private_targets: bool = Field(
        default=False,
        description="Whether private and loopback addresses may be reached; link-local ones are not by this.",
    )
    private_hosts: Names = Field(
        default=(),
        description="Hosts, addresses and networks (10.1.0.0/16) that may be reached though not public.",
    )
    timeout_seconds: Seconds = Field(
        default=60.0, description="Limit of one request, its redirects included, in seconds."
    )
    max_response_bytes: int = Field(
        default=1_048_576, ge=1_024, description="Longest answer that is read, in bytes; a longer one is cut."
    )
    max_redirects: int = Field(
        default=5, ge=0, description="Redirects that one request follows. 0 = none is followed."
    )
    replace_urls: dict[str, str] = Field(
        default_factory=dict,
        description="What documents' URLs begin with, and what stands there instead; the longest match wins.",
    )
    tools: dict[str, RemoteToolOverride] = Field(
        default_factory=dict, description="URL and headers of single tools, by name."
    )

    @field_validator("replace_urls")
    @classmethod
    def _must_be_http(cls, value: dict[str, str]) -> dict[str, str]:
        return {begin: _http_url(instead) for begin, instead in value.items()}


class McpServerOverride(BaseModel):
    """What is added to one MCP transport, by its name."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    url: HttpUrl | None = Field(
        default=None, description="URL used in place of the document's. None = that one."
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict, description="Headers sent with each request: the place for credentials."
    )
    cert_file: Path | None = Field(
        default=None, description="PEM file of the client's certificate. None = the client shows none."
    )
    key_file: Path | None = Field(
        default=None, description="PEM file of its private key. None = it stands in cert_file."
    )
    ca_file: Path | None = Field(
        default=None,
        description="PEM file of the authorities that servers are trusted by. None = the system's.",
    )


class McpSettings(BaseModel):
    """Rules for MCP servers."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    allow_stdio: bool = Field(
        default=False,
        description="Whether documents of this process's own modules may start a server as a program here.",
    )
    timeout_seconds: Seconds = Field(
        default=300.0, description="Limit of one call or listing, connecting included, in seconds."
    )
    max_response_bytes: int = Field(
        default=8_388_608,
        ge=1_024,
        description="Longest answer of a server, in bytes; a longer one is refused.",
    )
    servers: dict[str, McpServerOverride] = Field(
        default_factory=dict,
        description="URL, headers and TLS files of single servers, by their transport's name.",
    )
