"""The credentials of a document's tools: from the settings, or kept in memory where that is allowed."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from retinue.agents.agentspec.remote_spec import McpServer, RemoteSpec
from retinue.agents.agentspec.secrets import kept_secrets
from retinue.broker.settings import Settings
from retinue.broker.settings.tools import McpServerOverride, RemoteToolOverride
from retinue.contract import SettingsError


def remote_headers(settings: Settings, spec: RemoteSpec) -> Mapping[str, SecretStr]:
    """The headers that a RemoteTool sends beside its document's.

    Raises:
        SettingsError: The document needs some and the settings have none, or they would go to a URL that
            came with a launch.
    """
    override = settings.remote_tools.tools.get(spec.name, RemoteToolOverride())
    kept = {} if spec.by_value else kept_secrets("remote", spec.name)
    return _merged(spec, override, kept, section=f'remote_tools.tools."{spec.name}"')


def mcp_headers(settings: Settings, server: McpServer) -> Mapping[str, SecretStr]:
    """The headers that an MCP transport sends beside its document's.

    Raises:
        SettingsError: As `remote_headers`.
    """
    override = settings.mcp.servers.get(server.name, McpServerOverride())
    kept = {} if server.by_value else kept_secrets("mcp", server.name)
    return _merged(server, override, kept, section=f'mcp.servers."{server.name}"')


def mask(text: str, secrets: Mapping[str, SecretStr]) -> str:
    """The text without the credentials: a server may repeat what it was sent."""
    for secret in secrets.values():
        value = secret.get_secret_value()
        for part in (value, value.rpartition(" ")[2]):
            if len(part) >= 4:
                text = text.replace(part, "***")
    return text


def _merged(
    spec: RemoteSpec | McpServer,
    override: RemoteToolOverride | McpServerOverride,
    kept: Mapping[str, SecretStr],
    *,
    section: str,
) -> Mapping[str, SecretStr]:
    if spec.needs_headers and not override.headers:
        raise SettingsError(
            f"{spec.name!r} needs headers with credentials", setting=f"{section}.headers", mend="set them"
        )
    if override.headers and spec.by_value and override.url is None:
        # Whoever launches could name the operator's tool with a URL of his own, and be sent the key.
        raise SettingsError(
            f"{spec.name!r} came with a launch, and has a URL of its own",
            setting=f"{section}.url",
            mend="set it beside the headers that are to be sent there",
        )
    return {**kept, **override.headers}
