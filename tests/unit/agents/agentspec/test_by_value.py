from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from pyagentspec.agent import Agent
from pyagentspec.llms import VllmConfig
from pyagentspec.mcp import MCPToolBox, StdioTransport, StreamableHTTPTransport
from pyagentspec.serialization import AgentSpecSerializer
from pyagentspec.tools import RemoteTool

from retinue.agents import AgentSpecError, load_agent_spec
from retinue.agents.agentspec.by_value import load_by_value
from retinue.agents.registry.registry import Registry
from retinue.broker.settings import reset_settings
from retinue.contract import SubagentLifecycleError


@pytest.fixture(autouse=True)
def _own_settings():
    reset_settings()
    yield
    reset_settings()


def document(
    *, transport: Any = None, api_key: str | None = None, with_secrets: bool = False
) -> dict[str, Any]:
    at = transport or StreamableHTTPTransport(
        name="t", url="http://h/mcp", sensitive_headers={"X": "hunter22"}
    )
    agent = Agent(
        name="clerk",
        llm_config=VllmConfig(name="llm", model_id="m", url="http://h", api_key=api_key),
        system_prompt="Help.",
        tools=[RemoteTool(name="r", url="http://h/", http_method="GET")],
        toolboxes=[MCPToolBox(name="box", client_transport=at)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what it is told to write
        text = AgentSpecSerializer().to_json(agent, include_sensitive_fields=with_secrets)
    return json.loads(text)


def test_every_endpoint_of_a_launched_document_is_marked() -> None:
    registry = Registry.from_objects().with_document(load_by_value(document(api_key="hunter22")))
    entry = registry.agent("clerk")
    remote, box = entry.tools
    assert entry.llm is not None
    assert entry.llm.by_value
    assert entry.llm.needs_key
    assert remote.remote is not None
    assert remote.remote.by_value
    assert box.mcp is not None
    assert box.mcp.server.by_value
    assert box.mcp.server.needs_headers


def test_references_to_credentials_name_the_settings_that_must_hold_them() -> None:
    declaration = load_agent_spec(document(api_key="hunter22"))
    assert not declaration.entry.llm.by_value
    assert 'retinue.toml must set [llm_configs."llm"] api_key_env' in declaration.notes
    assert 'retinue.toml must set [mcp.servers."t"] headers' in declaration.notes


def test_a_credential_is_refused_whatever_the_settings_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_AGENT_SPEC__ALLOW_EMBEDDED_SECRETS", "true")
    with pytest.raises(SubagentLifecycleError, match="api_key") as caught:
        load_by_value(document(api_key="hunter22", with_secrets=True))
    assert "hunter22" not in str(caught.value)


def test_no_program_is_started_whatever_the_settings_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_MCP__ALLOW_STDIO", "true")
    started = document(transport=StdioTransport(name="t", command="server"))
    assert load_agent_spec(started).entry.tools[1].mcp is not None
    with pytest.raises(AgentSpecError, match="'box' of agent 'clerk' would start a program"):
        load_by_value(started)
