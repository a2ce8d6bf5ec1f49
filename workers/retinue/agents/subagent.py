"""`SubAgent` and `SubAgentSpec`: agents that work may be delegated to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retinue.agents.agentspec.loading import is_component
from retinue.agents.agentspec.member import AgentSpecDeclaration
from retinue.agents.tools.tool import as_tools
from retinue.contract import DeclarationError

from .agent import Agent, AgentConfig, OutputSchema, ToolSource, check_config
from .checks import (
    agent_name,
    optional_count,
    optional_name,
    optional_output_schema,
    optional_temperature,
    optional_text,
    required_text,
)
from .runnable import Runnable, check_runnable


@dataclass(frozen=True, slots=True, eq=False)
class SubAgent:
    """An existing agent under a name of its own.

    Args:
        name: what the parent's model passes to ``run_agent``; 1 to 64 characters without white space.
        agent: an `Agent`, what `load_agent_spec` returned, a pyagentspec object, or any object with
            ``run(query)``, sync or async. Of such an object Retinue knows only its result: it cannot be
            steered, cancelling it cancels its asyncio task, and its usage stays unknown.
        description: one line that tells the parent's model when to delegate here.
        when_to_use: longer guidance, shown after the description.
        restartable: an object's run is started anew when its worker dies. False = it ends as WORKER_LOST. An
            `Agent` resumes by itself.

    Raises:
        DeclarationError: a field is wrong; names it. Also a TypeError where `agent` cannot be run.
    """

    name: str
    agent: Runnable | Agent | AgentSpecDeclaration
    description: str
    when_to_use: str | None = None
    restartable: bool = False

    def __post_init__(self) -> None:
        agent_name(self.name)
        required_text("description", self.description, agent=self.name)
        optional_text("when_to_use", self.when_to_use, agent=self.name)
        if isinstance(self.agent, SubAgent | SubAgentSpec):
            raise DeclarationError(
                f"agent {self.name!r} wraps a {type(self.agent).__name__}",
                field="agent",
                mend="list that one in sub_agents itself",
            )
        if not isinstance(self.agent, Agent | AgentSpecDeclaration) and not is_component(self.agent):
            check_runnable(self.agent, name=self.name)


@dataclass(frozen=True, slots=True, eq=False)
class SubAgentSpec:
    """An agent by description only; it inherits from whoever delegates to it what it leaves open.

    It works alone: it sees the task and its own tools, not the parent's conversation or tools.

    Args:
        name: what the parent's model passes to ``run_agent``; 1 to 64 characters without white space.
        description: one line that tells the parent's model when to delegate here.
        when_to_use: longer guidance, shown after the description.
        tools: what it may call; nothing is inherited.
        domain_description: what it is told to be. None = the description.
        model_name: None = the settings' default, else the parent's model.
        temperature: 0 to 2. None = the parent's.
        max_tokens: longest model response, in tokens. None = the parent's.
        provider: name of a provider in the settings. None = the settings' default, else the parent's.
        config: a whole configuration: then none of the parent's is inherited. temperature and max_tokens
            still win over it.
        output_schema: what its reply is to be, as for an `Agent`. None = a text.

    Raises:
        DeclarationError: a field is wrong; names it.
    """

    name: str
    description: str
    when_to_use: str | None = None
    tools: Sequence[ToolSource] = ()
    domain_description: str | None = None
    model_name: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    provider: str | None = None
    config: AgentConfig | None = None
    output_schema: OutputSchema | None = None

    def __post_init__(self) -> None:
        agent_name(self.name)
        required_text("description", self.description, agent=self.name)
        optional_text("when_to_use", self.when_to_use, agent=self.name)
        optional_text("domain_description", self.domain_description, agent=self.name)
        optional_name("model_name", self.model_name, agent=self.name)
        optional_name("provider", self.provider, agent=self.name)
        optional_temperature(self.temperature)
        optional_count("max_tokens", self.max_tokens)
        if self.config is not None:
            check_config(self.config, agent=self.name)
        object.__setattr__(self, "tools", as_tools(self.tools, owner=self.name))
        schema = optional_output_schema(self.output_schema, agent=self.name)
        object.__setattr__(self, "output_schema", schema)
