"""Agents, tools and Agent Spec documents: what an application declares and workers run.

Importing it loads neither pyagentspec nor a model client; see `load_agent_spec` for the former.
"""

from retinue.agents.agentspec.llm import InlineLlm
from retinue.agents.agentspec.loading import load_agent_spec
from retinue.agents.agentspec.member import AgentSpecDeclaration
from retinue.agents.builtin_tools.roster_entry import RosterEntry
from retinue.agents.effective.effective import Capabilities, EffectiveSpec, Inheritance, RunnerKind, ToolSpec
from retinue.agents.effective.grants import Grant
from retinue.agents.effective.resolve import resolve
from retinue.agents.registry.entry import AgentEntry, Delegation
from retinue.agents.registry.registry import Registry
from retinue.agents.tools.arguments import ToolArgumentError
from retinue.agents.tools.tool import Tool, tool
from retinue.agents.tools.tool_context import LifecycleService, ToolContext, current_tool_context
from retinue.agents.tools.tool_result import ToolResultError
from retinue.contract import AgentSpecError, DeclarationError

from .agent import Agent, AgentConfig
from .hooks import (
    Hook,
    HookPoint,
    RunDelegated,
    RunHandedOff,
    RunMoment,
    RunStarted,
    RunStopped,
    ToolUsed,
    on_delegate,
    on_handoff,
    on_start,
    on_stop,
    on_tool,
)
from .runnable import NotRunnableError, Runnable
from .subagent import SubAgent, SubAgentSpec

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentEntry",
    "AgentSpecDeclaration",
    "AgentSpecError",
    "Capabilities",
    "DeclarationError",
    "Delegation",
    "EffectiveSpec",
    "Grant",
    "Hook",
    "HookPoint",
    "Inheritance",
    "InlineLlm",
    "LifecycleService",
    "NotRunnableError",
    "Registry",
    "RosterEntry",
    "RunDelegated",
    "RunHandedOff",
    "RunMoment",
    "RunStarted",
    "RunStopped",
    "Runnable",
    "RunnerKind",
    "SubAgent",
    "SubAgentSpec",
    "Tool",
    "ToolArgumentError",
    "ToolContext",
    "ToolResultError",
    "ToolSpec",
    "ToolUsed",
    "current_tool_context",
    "load_agent_spec",
    "on_delegate",
    "on_handoff",
    "on_start",
    "on_stop",
    "on_tool",
    "resolve",
    "tool",
]
