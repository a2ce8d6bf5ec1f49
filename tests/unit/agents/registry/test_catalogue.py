from __future__ import annotations

import json
from typing import Any, cast

from pyagentspec.agent import Agent as SpecAgent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.mcp import MCPToolBox, StreamableHTTPTransport
from pyagentspec.tools import ClientTool
from tests.unit.agents.conftest import SettingsFactory

from retinue.agents import Agent, AgentConfig, Registry, SubAgent, SubAgentSpec, tool
from retinue.agents.registry.catalogue import advertise
from retinue.broker.settings import Settings


class Echo:
    def run(self, query: str) -> str:
        return query


@tool(toolset="handbook")
def search_handbook(query: str) -> str:
    return query


def agents(settings: Settings, *objects: object) -> dict[str, dict[str, Any]]:
    catalogue = advertise(Registry.from_objects(*objects), settings)
    json.dumps(catalogue)
    return {item["name"]: item for item in cast("list[dict[str, Any]]", catalogue["agents"])}


def test_each_agent_is_advertised_with_what_a_launch_needs(make_settings: SettingsFactory) -> None:
    settings = make_settings(routes={"researcher": "gpu"})
    child = SubAgentSpec(name="researcher", description="d", tools=[search_handbook])
    found = agents(
        settings,
        Agent(
            name="support",
            instructions="SECRET PROMPT",
            model="m",
            config=AgentConfig(queue="front"),
            sub_agents=[child],
        ),
        SubAgent(name="echo", agent=Echo(), description="e"),
    )
    assert found["support"] == {
        "name": "support",
        "description": "SECRET PROMPT",
        "model": "m",
        "provider": "openai",
        "queue": "front",
        "toolsets": [],
        "sub_agents": ["researcher"],
        "inputs": [],
        "digest": found["support"]["digest"],
        "stop_hooks": False,
    }
    assert found["researcher"]["queue"] == "gpu"
    assert found["researcher"]["toolsets"] == ["handbook"]
    assert found["researcher"]["model"] is None  # a parent's, or the launch's
    assert (found["echo"]["model"], found["echo"]["queue"]) == (None, "retinue")
    assert settings.delegation.default_agent_name in found


def test_toolsets_are_advertised_with_their_tools(settings: Settings) -> None:
    assert advertise(Registry.from_objects(search_handbook), settings)["toolsets"] == {
        "handbook": ["search_handbook"]
    }


def test_a_documents_own_tools_are_advertised_as_far_as_it_names_them(settings: Settings) -> None:
    llm = OpenAiConfig(name="llm", model_id="m")
    transport = StreamableHTTPTransport(name="files", url="https://mcp.example.com/mcp")
    clerk = SpecAgent(
        name="clerk",
        llm_config=llm,
        system_prompt="Work.",
        tools=[ClientTool(name="ask me", inputs=[])],
        toolboxes=[MCPToolBox(name="files", client_transport=transport, tool_filter=["read"])],
    )

    assert advertise(Registry.from_objects(clerk), settings)["toolsets"] == {
        "ask me": ["ask me"],
        "files": ["files", "read"],
    }


def test_the_digest_changes_with_the_declaration_only(settings: Settings) -> None:
    def digest(instructions: str) -> str:
        return agents(settings, Agent(name="a", instructions=instructions, description="d"))["a"]["digest"]

    assert digest("x") == digest("x")
    assert digest("x") != digest("y")
