"""What the registry keeps of each agent: one shape for all ways to declare one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, JsonValue

from .agent import AgentConfig
from .llm import InlineLlm
from .placeholders import PromptInput
from .runnable import Runnable
from .tool import AnyTool


class Delegation(StrEnum):
    """How a model delegates."""

    NONE = "none"
    RUN_AGENT = "run_agent"  # run_agent and list_agents
    SEND_MESSAGE = "send_message"  # the manager of a group


class RosterEntry(BaseModel):
    """One sub-agent, as the model that may delegate to it sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    when_to_use: str | None = None


@dataclass(frozen=True, slots=True)
class ToolBinding:
    """A tool as one agent offers it to its model; an Agent Spec document may describe it in its own words."""

    tool: AnyTool
    api_name: str
    description: str
    parameters: Mapping[str, JsonValue]


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
        target: the foreign object to run. None = Retinue's loop runs it.
        restartable: a lost run of a foreign object is started anew.
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

    def in_roster(self) -> RosterEntry:
        """The line about this agent in a roster."""
        return RosterEntry(name=self.name, description=self.description, when_to_use=self.when_to_use)
