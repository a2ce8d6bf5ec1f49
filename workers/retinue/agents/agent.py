"""`Agent` and `AgentConfig`: what an application declares once, at the top level of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, JsonValue

from retinue.agents.tools.tool import AnyTool, as_tools
from retinue.contract import DeclarationError

from .checks import (
    agent_name,
    model_params,
    optional_bool,
    optional_count,
    optional_name,
    optional_output_schema,
    optional_temperature,
    optional_text,
    required_text,
)

if TYPE_CHECKING:
    from .subagent import SubAgent, SubAgentSpec

ToolSource = AnyTool | Callable[..., object] | str
"""What may stand in an agent's tools: a tool, a plain function, the name of a registered tool or toolset."""

OutputSchema = Mapping[str, JsonValue] | type[BaseModel]
"""What may stand as an output schema: a JSON schema of type object, or a pydantic model class."""

# Where an agent runs is its own affair: a child does not follow its parent to the parent's queue.
_NOT_INHERITED: Final = frozenset({"queue"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """How an agent runs; None always means: what the settings, or the model, have as default.

    Args:
        max_iterations: model requests of one run.
        max_tool_calls: tool calls of one run.
        temperature: 0 to 2.
        max_tokens: longest model response, in tokens.
        params: further members of each model request (``top_p``, ``reasoning_effort`` ...).
        queue: the Celery queue for the agent's runs, unless the setting ``routes`` names one.
        background: its model may let sub-agents work in the background, and check, steer, cancel and wait for
            them. None = as the setting ``delegation.background`` says.
        ask_user: its model may ask the user, by ``ask_user``. None = it may not.
        ask_parent: its model may ask whoever started it, by ``ask_parent``. None = it may not.

    Raises:
        DeclarationError: a value is out of range; names the field.
    """

    max_iterations: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    params: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    queue: str | None = None
    background: bool | None = None
    ask_user: bool | None = None
    ask_parent: bool | None = None

    def __post_init__(self) -> None:
        optional_count("max_iterations", self.max_iterations)
        optional_count("max_tool_calls", self.max_tool_calls)
        optional_temperature(self.temperature)
        optional_count("max_tokens", self.max_tokens)
        optional_name("queue", self.queue, agent="config")
        optional_bool("background", self.background)
        optional_bool("ask_user", self.ask_user)
        optional_bool("ask_parent", self.ask_parent)
        object.__setattr__(self, "params", model_params(self.params))

    @classmethod
    def child(cls, parent: AgentConfig, **overrides: object) -> AgentConfig:
        """The parent's configuration with some fields replaced; its queue is not inherited.

        Args:
            parent: whose values are taken over.
            overrides: fields by name. None counts: it takes the parent's value away.

        Raises:
            DeclarationError: a name is no field; lists the fields.
        """
        names = [item.name for item in fields(cls)]
        unknown = sorted(set(overrides) - set(names))
        if unknown:
            raise DeclarationError(
                f"{', '.join(unknown)}: no such field", field="config", mend=f"use {', '.join(names)}"
            )
        values = {name: getattr(parent, name) for name in names if name not in _NOT_INHERITED}
        return cls(**(values | overrides))  # pyright: ignore[reportArgumentType] - checked in __post_init__

    def request_params(self) -> dict[str, JsonValue]:
        """The members of a model request that this configuration sets."""
        own = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {**self.params, **{name: value for name, value in own.items() if value is not None}}


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An agent that Retinue's own loop runs.

    Args:
        name: unique within a worker; 1 to 64 characters without white space.
        instructions: the system prompt. ``{{name}}`` is replaced by the launch's input of that name, if there
            is one.
        tools: what the model may call.
        model: None = the provider's or the settings' default, else the parent's.
        provider: name of a provider in the settings. None = the settings' default, else the parent's.
        config: limits, sampling, queue.
        sub_agents: whom the model may delegate to.
        description: one line for those who may delegate to it. None = the first line of the instructions.
        output_schema: a run ends with an object that fits this JSON schema, or this pydantic model's.
            None = with a text. A launch may name another.

    Raises:
        DeclarationError: a field is wrong; names it.
    """

    name: str
    instructions: str
    tools: Sequence[ToolSource] = ()
    model: str | None = None
    provider: str | None = None
    config: AgentConfig = field(default_factory=AgentConfig)
    sub_agents: Sequence[Agent | SubAgent | SubAgentSpec] = ()
    description: str | None = None
    output_schema: OutputSchema | None = None

    def __post_init__(self) -> None:
        agent_name(self.name)
        required_text("instructions", self.instructions, agent=self.name)
        optional_text("description", self.description, agent=self.name)
        optional_name("model", self.model, agent=self.name)
        optional_name("provider", self.provider, agent=self.name)
        check_config(self.config, agent=self.name)
        object.__setattr__(self, "tools", as_tools(self.tools, owner=self.name))
        object.__setattr__(self, "sub_agents", _sub_agents(self.sub_agents, owner=self.name))
        schema = optional_output_schema(self.output_schema, agent=self.name)
        object.__setattr__(self, "output_schema", schema)


def check_config(value: object, *, agent: str) -> None:
    """Refuse anything but an AgentConfig."""
    if not isinstance(value, AgentConfig):
        raise DeclarationError(
            f"of agent {agent!r} is a {type(value).__name__}", field="config", mend="give an AgentConfig"
        )


def _sub_agents(items: object, *, owner: str) -> tuple[Agent | SubAgent | SubAgentSpec, ...]:
    from .subagent import SubAgent, SubAgentSpec  # subagent.py needs Agent

    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise DeclarationError(
            f"of agent {owner!r} is a {type(items).__name__}", field="sub_agents", mend="give a list"
        )
    result: list[Agent | SubAgent | SubAgentSpec] = []
    for number, item in enumerate(items):
        if not isinstance(item, Agent | SubAgent | SubAgentSpec):
            raise DeclarationError(
                f"item {number} of agent {owner!r} is a {type(item).__name__}",
                field="sub_agents",
                limit="Agent, SubAgent or SubAgentSpec",
                mend="wrap an object that has run() in SubAgent(name=..., agent=..., description=...)",
            )
        if item.name == owner or any(item.name == other.name for other in result):
            raise DeclarationError(
                f"agent {owner!r} has two sub-agents named {item.name!r}"
                if item.name != owner
                else f"a sub-agent has its parent's name {owner!r}",
                field="sub_agents",
                mend="give each its own name",
            )
        result.append(item)
    return tuple(result)
