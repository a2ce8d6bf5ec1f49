"""Agents, tools and Agent Spec documents: what an application declares and workers run.

Importing it loads neither pyagentspec nor a model client; see `load_agent_spec` for the former.
"""

from retinue.contract import AgentSpecError, DeclarationError

from .agent import Agent, AgentConfig
from .agentspec import load_agent_spec
from .agentspec_member import AgentSpecDeclaration
from .arguments import ToolArgumentError
from .effective import Capabilities, EffectiveSpec, Inheritance, RunnerKind, ToolSpec
from .entry import AgentEntry, Delegation
from .grants import Grant
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
from .llm import InlineLlm
from .registry import Registry
from .resolve import resolve
from .roster_entry import RosterEntry
from .runnable import NotRunnableError, Runnable
from .subagent import SubAgent, SubAgentSpec
from .tool import Tool, tool
from .tool_context import LifecycleService, ToolContext, current_tool_context
from .tool_result import ToolResultError

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
