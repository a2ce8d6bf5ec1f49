"""`retinue run spec.yaml`, `retinue agents list` and `retinue agents show`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.test_cli import Cli

from retinue.cli.exits import ExitCode
from retinue.testing import Match, ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

AGENTS = '''
from retinue.agents import Agent, AgentConfig, SubAgentSpec, tool

@tool(toolset="sums", read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

clerk = SubAgentSpec(name="clerk", description="Adds.", tools=[add])
desk = Agent(
    name="desk",
    instructions="You are desk.",
    sub_agents=[clerk],
    config=AgentConfig(temperature=0.2, max_iterations=7, background=True),
)
'''
SPEC = """
agentspec_version: 25.4.1
component_type: Agent
id: counter
name: counter
description: Counts.
system_prompt: "Role: counter. Count for {{customer}}."
inputs: [{title: customer, type: string}]
llm_config: {component_type: OpenAiConfig, id: llm, name: llm, model_id: m-spec}
tools:
  - component_type: ServerTool
    id: add
    name: add
    description: Add two numbers.
    inputs: [{title: a, type: integer}, {title: b, type: integer}]
    outputs: [{title: sum, type: integer}]
"""
TEAM = """
agentspec_version: 25.4.2
component_type: ManagerWorkers
id: team
name: team
group_manager: {component_type: Agent, id: head, name: head, system_prompt: Lead., llm_config: &llm
    {component_type: OpenAiConfig, id: llm, name: llm, model_id: m-spec}}
workers:
  - {component_type: Agent, id: hand, name: hand, system_prompt: Work., llm_config: *llm}
"""
SECRET = "sk-not-to-be-shown"


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    with PrivateServer(appendonly=True) as server:
        yield server


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer() as model:
        counter = model.script_where("counter", Match(system_contains="Role: counter."))
        counter.call("add", {"a": 2, "b": 3}).then("${results}")
        yield model


@pytest.fixture(scope="module")
def cli(
    tmp_path_factory: pytest.TempPathFactory, server: PrivateServer, model: ScriptedServer
) -> Iterator[Cli]:
    directory: Path = tmp_path_factory.mktemp("cli-agents")
    (directory / "shown_agents.py").write_text(AGENTS)
    (directory / "spec.yaml").write_text(SPEC)
    (directory / "team.yaml").write_text(TEAM)
    settings = {"agents": "shown_agents"}
    with WorkerProcess(
        server.url, directory=directory, settings=settings, model_url=model.base_url
    ) as worker:
        worker.wait_until_ready(60)
        yield Cli(directory, server.url)


def test_run_takes_a_file_and_inputs_and_prints_the_result(cli: Cli, model: ScriptedServer) -> None:
    done = cli("run", "spec.yaml", "How much is 2 + 3?", "--input", "customer=Ada", "--quiet", "--wait", "40")

    assert (done.returncode, done.stdout) == (ExitCode.OK, "5\n"), done.stderr
    asked = model.requests("counter")[0].request
    assert asked is not None
    assert asked.system.startswith("Role: counter. Count for Ada.")
    result = cli.json("run", "spec.yaml", "Again.", "--input", "customer=Ada")
    assert (result["terminal_state"], result["summary"]) == ("SUCCEEDED", "5")


def test_a_file_that_cannot_be_run_is_told_by_text_and_exit_code(cli: Cli) -> None:
    missing = cli("run", "missing.yaml", "Go.")
    assert missing.returncode == ExitCode.PROBLEM
    assert "missing.yaml cannot be read" in missing.stderr

    without = cli("run", "spec.yaml", "Go.", "--quiet")
    assert without.returncode == ExitCode.FAILED
    assert "customer" in without.stderr

    (cli.directory / "other.yaml").write_text(SPEC.replace("name: add", "name: subtract"))
    unknown = cli.json("run", "other.yaml", "Go.", code=ExitCode.PROBLEM)
    assert unknown["error"]["code"] == "UNKNOWN_TOOLSET"
    assert "subtract" in unknown["error"]["message"]


def test_agents_are_listed_from_modules_or_from_what_workers_advertise(cli: Cli) -> None:
    here = cli.json("agents", "list", RETINUE_AGENTS="shown_agents")
    assert here["source"] == "modules"
    assert [agent["name"] for agent in here["agents"]] == ["clerk", "desk"]
    assert here["agents"][1]["place"] == "shown_agents:desk"

    for more in ({}, {"RETINUE_AGENTS": "no_such_module"}):
        there = cli.json("agents", "list", code=ExitCode.OK, **more)
        assert there["source"] == "workers"
        found = {agent["name"]: agent for agent in there["agents"]}
        assert found["desk"]["sub_agents"] == ["clerk"]
        assert found["clerk"]["toolsets"] == ["sums"]
        assert found["clerk"]["workers"] == 1
    assert "desk" in cli("agents", "list").stdout


def test_show_says_where_each_value_comes_from(cli: Cli) -> None:
    settings = {
        "RETINUE_AGENTS": "shown_agents",
        "OPENAI_API_KEY": SECRET,
        "RETINUE_DEFAULT_MODEL": "m-default",
        "RETINUE_ROUTES": json.dumps({"de*": "fast"}),
    }

    shown = cli.json("agents", "show", "desk", "--provider", "openai", code=ExitCode.OK, **settings)
    spec = {item["name"]: item for item in shown["spec"]}

    def origin(name: str) -> tuple[object, str, str | None]:
        item = spec[name]
        return item["value"], item["source"], item["place"]

    assert origin("model") == ("m-default", "settings", "default_model")
    assert origin("provider") == ("openai", "request", None)
    assert origin("temperature") == (0.2, "declaration", None)
    assert origin("max_iterations") == (7, "declaration", None)
    assert origin("max_tool_calls") == (None, "default", None)
    assert origin("queue") == ("fast", "settings", "routes")
    assert spec["base_url"]["source"] == "provider"
    assert [item["name"] for item in spec["sub_agents"]["value"]] == ["clerk"]
    assert "wait_agents" in spec["built_in_tools"]["value"]
    assert spec["prompt"]["value"] == "You are desk."
    assert SECRET not in json.dumps(shown)

    as_child = cli.json("agents", "show", "clerk", "--parent", "desk", code=ExitCode.OK, **settings)
    inherited = {item["name"]: item["source"] for item in as_child["spec"]}
    assert inherited["temperature"] == "parent"
    assert inherited["max_iterations"] == "parent"
    assert "[settings default_model]" in cli("agents", "show", "desk", **settings).stdout


def test_show_takes_a_file_also_where_its_tools_are_elsewhere(cli: Cli) -> None:
    with_modules = cli.json(
        "agents", "show", "spec.yaml", RETINUE_AGENTS="shown_agents", OPENAI_API_KEY=SECRET
    )
    spec = {item["name"]: item["value"] for item in with_modules["spec"]}
    assert spec["model"] == "m-spec"
    assert spec["inputs"] == ["customer"]
    assert spec["tools"] == [{"name": "add", "toolset": "sums"}]
    assert with_modules["unknown_tools"] == []

    alone = cli.json("agents", "show", "spec.yaml", OPENAI_API_KEY=SECRET)
    assert alone["unknown_tools"] == ["add"]
    assert SECRET not in json.dumps(alone)


def test_show_of_a_file_tells_what_is_doubtful_about_it(cli: Cli) -> None:
    shown = cli("agents", "show", "team.yaml", OPENAI_API_KEY=SECRET)
    (doubt,) = cli.json("agents", "show", "team.yaml", OPENAI_API_KEY=SECRET)["notes"]

    assert "'hand' of 'team' has no description" in doubt
    assert f"{'note':<16}{doubt}" in shown.stdout.splitlines()
    assert "agent_spec_note" not in shown.stderr, "nor is it said twice"


def test_show_of_a_workers_agent_and_of_nobody(cli: Cli) -> None:
    assert cli.json("agents", "show", "clerk")["agent"]["toolsets"] == ["sums"]
    assert "sums" in cli("agents", "show", "clerk").stdout
    nobody = cli("agents", "show", "nobody")
    assert nobody.returncode == ExitCode.PROBLEM
    assert "nobody" in nobody.stderr
