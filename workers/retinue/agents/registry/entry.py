"""What the registry keeps of each agent: one shape for all ways to declare one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

from retinue.agents.agent import AgentConfig
from retinue.agents.agentspec.llm import InlineLlm
from retinue.agents.agentspec.member import SpecTool
from retinue.agents.agentspec.placeholders import PromptInput
from retinue.agents.agentspec.remote_spec import SAFE_METHODS, McpSpec, RemoteSpec, ToolKind
from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.runnable import Runnable
from retinue.agents.tools.tool import AnyTool


class Delegation(StrEnum):
    """How a model delegates."""

    NONE = "none"
    RUN_AGENT = "run_agent"  # run_agent and list_agents
    SEND_MESSAGE = "send_message"  # a member of a group: send_message, handoff_conversation


@dataclass(frozen=True, slots=True)
class ToolBinding:
    """A tool as one agent offers it to its model; an Agent Spec document may describe it in its own words.

    Args:
        name: by which grants and settings know it.
        toolset: the group under which launches grant it.
        api_name: as the model calls it.
        tool: the function that answers its calls. None = it is answered elsewhere.
        requires_confirmation: a call waits until a human approves it.
        remote: the request of a ``remote`` tool.
        mcp: the server of an ``mcp`` tool or toolbox.
    """

    name: str
    toolset: str
    api_name: str
    description: str
    parameters: Mapping[str, JsonValue]
    tool: AnyTool | None = None
    kind: ToolKind = "server"
    requires_confirmation: bool = False
    remote: RemoteSpec | None = None
    mcp: McpSpec | None = None

    @property
    def read_only(self) -> bool:
        """Whether a call changes nothing, so that one that was lost in a crash is simply run again."""
        if self.tool is not None:
            return self.tool.read_only
        return self.remote is not None and self.remote.method in SAFE_METHODS

    @classmethod
    def of(cls, tool: AnyTool, api_name: str) -> ToolBinding:
        """A tool as it describes itself."""
        return cls(
            name=tool.name,
            toolset=tool.toolset,
            api_name=api_name,
            description=tool.description,
            parameters=tool.parameters,
            tool=tool,
            requires_confirmation=tool.requires_confirmation,
        )

    @classmethod
    def declared(cls, wanted: SpecTool, tool: AnyTool | None) -> ToolBinding:
        """A tool as a document describes it.

        Args:
            tool: the function that answers a ``server`` tool's calls.
        """
        return cls(
            name=tool.name if tool else wanted.name,
            toolset=tool.toolset if tool else wanted.name,
            api_name=wanted.api_name,
            description=wanted.description or (tool.description if tool else wanted.name),
            parameters=wanted.parameters,
            tool=tool,
            kind=wanted.kind,
            requires_confirmation=wanted.requires_confirmation
            or (tool is not None and tool.requires_confirmation),
            remote=wanted.remote,
            mcp=wanted.mcp,
        )


@dataclass(frozen=True, slots=True, eq=False)
class AgentEntry:
    """A registered agent.

    Args:
        name: what launches, routes and rosters call it.
        description: one line for whoever may delegate to it.
        when_to_use: more of it.
        prompt: the system prompt with its placeholders. "" for an object.
        inputs: what the prompt's placeholders need, for documents that say so.
        needs: the inputs of everyone who may run below it and needs some, by agent name.
        tools: what it offers to its model.
        model: None = not declared.
        provider: None = not declared.
        llm: the endpoint of an Agent Spec document. None = a provider of the settings.
        config: limits and sampling as declared.
        inherits: sampling and limits that it leaves open come from the parent's.
        roster: the sub-agents that its declaration names.
        delegation: how it delegates to them.
        handoffs: the agents that it may hand its conversation over to.
        groups: registered names of the groups in whose conversations it takes part, outermost first. A
            manager's workers take no part in the manager's.
        group: registered name of the group that is launched under this name. None = it is a plain agent.
        title: what models call it. None = `name`.
        may_ask: False = it must finish without asking anybody.
        target: the foreign object to run. None = Retinue's loop runs it.
        restartable: a lost run of a foreign object is started anew.
        output_schema: JSON schema of the object that a run is to end with. None = a text.
        place: where it is declared, for messages.
        source: the declaration; the same object again is no duplicate.
    """

    name: str
    description: str
    place: str
    source: object = field(repr=False)
    prompt: str = field(default="", repr=False)
    when_to_use: str | None = None
    inputs: tuple[PromptInput, ...] = ()
    needs: Mapping[str, tuple[PromptInput, ...]] = field(default_factory=dict[str, tuple[PromptInput, ...]])
    tools: tuple[ToolBinding, ...] = ()
    model: str | None = None
    provider: str | None = None
    llm: InlineLlm | None = None
    config: AgentConfig = field(default_factory=AgentConfig)
    inherits: bool = False
    roster: tuple[RosterEntry, ...] = ()
    delegation: Delegation = Delegation.NONE
    target: Runnable | None = field(default=None, repr=False)
    restartable: bool = False
    output_schema: Mapping[str, JsonValue] | None = None
    handoffs: tuple[RosterEntry, ...] = ()
    groups: tuple[str, ...] = ()
    group: str | None = None
    title: str | None = None
    may_ask: bool = True

    def in_roster(self) -> RosterEntry:
        """The line about this agent in a roster."""
        return RosterEntry(name=self.name, description=self.description, when_to_use=self.when_to_use)
