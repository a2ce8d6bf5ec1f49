"""The effective spec: everything about a run's agent, resolved once and pinned for the run's life."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from retinue.agents.agentspec.llm import InlineLlm
from retinue.agents.agentspec.remote_spec import McpSpec, RemoteSpec, ToolKind
from retinue.agents.builtin_tools.asking import asking_tools
from retinue.agents.builtin_tools.background import background_tools
from retinue.agents.builtin_tools.output import submit_tool
from retinue.agents.builtin_tools.roster import RUN_AGENT, DelegationTool, delegation_tools
from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.registry.entry import Delegation
from retinue.agents.tools.api_name import loose
from retinue.contract import Role, canonical_json

from .grants import Grant


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be done with a run while it runs.

    Args:
        can_steer: a message reaches it at its next boundary. False = a steer is refused, and says so.
        can_checkpoint: what it has done outlives its worker. False = a lost run starts anew, if it may.
        can_suspend: it waits for others without holding a worker. False = it waits in place.
        reports_usage: what it uses is known. False = unknown, which is not zero.
    """

    can_steer: bool
    can_checkpoint: bool
    can_suspend: bool
    reports_usage: bool


class RunnerKind(StrEnum):
    """Who runs an agent."""

    LOOP = "loop"  # Retinue's own
    OBJECT = "object"  # a foreign object with run()

    @property
    def capabilities(self) -> Capabilities:
        """What can be done with the runs of its agents."""
        its_own = self is RunnerKind.LOOP
        return Capabilities(
            can_steer=its_own, can_checkpoint=its_own, can_suspend=its_own, reports_usage=its_own
        )


class _Pinned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSpec(_Pinned):
    """A tool as the run's model sees it; `name` finds the function.

    Args:
        kind: who answers its calls.
        requires_confirmation: a call waits until a human approves it.
        remote: the request of a ``remote`` tool.
        mcp: the server of an ``mcp`` tool.
    """

    name: str
    api_name: str
    toolset: str
    description: str
    parameters: dict[str, JsonValue]
    read_only: bool = False
    idempotent: bool = False
    kind: ToolKind = "server"
    requires_confirmation: bool = False
    remote: RemoteSpec | None = None
    mcp: McpSpec | None = None


class Inheritance(_Pinned):
    """What a child may take over from its parent's run.

    Args:
        model: the parent's model.
        provider: its provider.
        llm: its endpoint, if that is an Agent Spec document's.
        params: its sampling parameters.
        max_iterations: its limit.
        max_tool_calls: its limit.
        grant: its grant; the child's can only be narrower.
        toolsets: those its tools belong to; what a generic child gets.
    """

    model: str | None = None
    provider: str | None = None
    llm: InlineLlm | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    max_iterations: int | None = None
    max_tool_calls: int | None = None
    grant: Grant = Grant()
    toolsets: tuple[str, ...] = ()


class EffectiveSpec(_Pinned):
    """Everything that decides how a run behaves, as JSON.

    Args:
        agent: the registered name.
        runner: who runs it.
        role: leaf or orchestrator.
        instructions: the system prompt, its placeholders filled. "" for an object.
        model: None for an object.
        provider: name of a provider in the settings. None for an object, and where `llm` has a URL.
        llm: the endpoint of an Agent Spec document. None = the provider's.
        params: members of each model request: temperature, max_tokens and others.
        tools: what the model is offered, within the grant; built-in tools are not among them.
        roster: whom the model may delegate to.
        delegation: how.
        handoffs: whom the model may hand the run's conversation over to.
        groups: registered names of the groups in whose conversations it takes part, outermost first.
        title: what models call it. None = `agent`.
        max_iterations: model requests of the run.
        max_tool_calls: tool calls of the run. None = no limit.
        grant: asked again before each call.
        restartable: a lost run of a foreign object is started anew.
        output_schema: JSON schema of the object that the run is to end with. None = a text.
        background: its model may let sub-agents work in the background.
        ask_user: its model may ask the user.
        ask_parent: its model may ask whoever started it.
        document_members: registered names of the agents of the document that came with the launch; a child of
            such a name is run from it. Empty = workers have the agent.
    """

    agent: str
    runner: RunnerKind = RunnerKind.LOOP
    role: Role = Role.LEAF
    instructions: str = Field(default="", repr=False)
    model: str | None = None
    provider: str | None = None
    llm: InlineLlm | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    tools: tuple[ToolSpec, ...] = Field(default=(), repr=False)
    roster: tuple[RosterEntry, ...] = Field(default=(), repr=False)
    delegation: Delegation = Delegation.NONE
    handoffs: tuple[RosterEntry, ...] = Field(default=(), repr=False)
    groups: tuple[str, ...] = ()
    title: str | None = None
    max_iterations: int
    max_tool_calls: int | None = None
    grant: Grant = Grant()
    restartable: bool = False
    output_schema: dict[str, JsonValue] | None = Field(default=None, repr=False)
    background: bool = False
    ask_user: bool = False
    ask_parent: bool = False
    document_members: tuple[str, ...] = ()

    @cached_property
    def json_text(self) -> str:
        """The spec as canonical JSON, as it is pinned."""
        return canonical_json(self.model_dump(mode="json"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the spec's canonical JSON: the same for the same behaviour, in every process."""
        return hashlib.sha256(self.json_text.encode()).hexdigest()

    @property
    def capabilities(self) -> Capabilities:
        """What can be done with the run while it runs."""
        return self.runner.capabilities

    @property
    def built_in_tools(self) -> tuple[DelegationTool, ...]:
        """The tools by which the model delegates and asks, within the grant, and that which ends its run."""
        return self.built_in_tools_within(self.grant)

    def built_in_tools_within(self, grant: Grant) -> tuple[DelegationTool, ...]:
        """The same within a grant that allows no more than the spec's own.

        No grant takes the last one away: to hand in the result is no right.
        """
        tools = delegation_tools(self.delegation, self.roster, self.handoffs, background=self.background)
        if self.background and any(tool.name == RUN_AGENT for tool in tools):
            tools = (*tools, *background_tools())
        tools = (*tools, *asking_tools(user=self.ask_user, parent=self.ask_parent))
        granted = tuple(tool for tool in tools if grant.allows_delegation(tool.name))
        return granted if self.output_schema is None else (*granted, submit_tool(self.output_schema))

    def find_tool(self, api_name: str) -> ToolSpec | None:
        """The tool that a model's call names, or None.

        The only one whose name differs in case, blanks and punctuation alone will do: prompts of Agent Spec
        documents speak of `process_refund` where the tool is called "Process refund".
        """
        exact = next((tool for tool in self.tools if tool.api_name == api_name), None)
        if exact is not None:
            return exact
        similar = [tool for tool in self.tools if loose(tool.api_name) == loose(api_name)]
        return similar[0] if len(similar) == 1 else None

    def may_launch(self, agent: str | None) -> bool:
        """Whether the run's code may launch that agent: an orchestrator any, a leaf those in its roster.

        Args:
            agent: None = the generic agent.
        """
        if self.delegation is Delegation.NONE:
            return False
        return self.role is Role.ORCHESTRATOR or any(item.registered == agent for item in self.roster)

    def inheritance(self) -> Inheritance:
        """What the run's children may take over."""
        return Inheritance(
            model=self.model,
            provider=self.provider,
            llm=self.llm,
            params=self.params,
            max_iterations=self.max_iterations,
            max_tool_calls=self.max_tool_calls,
            grant=self.grant,
            toolsets=tuple(sorted({tool.toolset for tool in self.tools})),
        )
