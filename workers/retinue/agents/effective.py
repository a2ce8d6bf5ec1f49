"""The effective spec: everything about a run's agent, resolved once and pinned for the run's life."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from retinue.contract import Role, canonical_json

from .api_name import loose
from .entry import Delegation, RosterEntry
from .grants import Grant
from .llm import InlineLlm
from .roster import DelegationTool, delegation_tools


class Runner(StrEnum):
    """Who runs an agent."""

    LOOP = "loop"  # Retinue's own
    OBJECT = "object"  # a foreign object with run()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What can be done with a run while it runs."""

    can_steer: bool
    can_checkpoint: bool
    can_suspend: bool
    reports_usage: bool


_CAPABILITIES = {
    Runner.LOOP: Capabilities(can_steer=True, can_checkpoint=True, can_suspend=True, reports_usage=True),
    Runner.OBJECT: Capabilities(
        can_steer=False, can_checkpoint=False, can_suspend=False, reports_usage=False
    ),
}


class _Pinned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolSpec(_Pinned):
    """A tool as the run's model sees it; `name` finds the function."""

    name: str
    api_name: str
    toolset: str
    description: str
    parameters: dict[str, JsonValue]
    read_only: bool = False
    idempotent: bool = False


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
        max_iterations: model requests of the run.
        max_tool_calls: tool calls of the run. None = no limit.
        grant: asked again before each call.
        restartable: a lost run of a foreign object is started anew.
    """

    agent: str
    runner: Runner = Runner.LOOP
    role: Role = Role.LEAF
    instructions: str = Field(default="", repr=False)
    model: str | None = None
    provider: str | None = None
    llm: InlineLlm | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    tools: tuple[ToolSpec, ...] = Field(default=(), repr=False)
    roster: tuple[RosterEntry, ...] = Field(default=(), repr=False)
    delegation: Delegation = Delegation.NONE
    max_iterations: int
    max_tool_calls: int | None = None
    grant: Grant = Grant()
    restartable: bool = False

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
        return _CAPABILITIES[self.runner]

    @property
    def built_in_tools(self) -> tuple[DelegationTool, ...]:
        """The tools with which the model delegates, within the grant."""
        tools = delegation_tools(self.delegation, self.roster)
        return tuple(tool for tool in tools if self.grant.allows_delegation(tool.name))

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
        return self.role is Role.ORCHESTRATOR or any(item.name == agent for item in self.roster)

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
