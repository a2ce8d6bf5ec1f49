from __future__ import annotations

import subprocess
import sys

import pytest

import retinue.agents

PROBE = """
import sys
from retinue.agents import Agent, Registry, SubAgentSpec, tool
from retinue.agents import resolve

@tool
def act(x: int) -> int:
    return x

child = SubAgentSpec(name="b", description="d")
Registry.from_objects(Agent(name="a", instructions="x", tools=[act], sub_agents=[child]))
print(*[name for name in ("pyagentspec", "openai", "celery", "kombu", "yaml") if name in sys.modules])
"""

NAMES = """
Agent AgentConfig AgentEntry AgentSpecDeclaration AgentSpecError Capabilities DeclarationError Delegation
EffectiveSpec Grant Hook HookPoint Inheritance InlineLlm LifecycleService NotRunnableError Registry
RosterEntry RunDelegated RunHandedOff RunMoment RunStarted RunStopped Runnable RunnerKind SubAgent
SubAgentSpec Tool ToolArgumentError ToolContext ToolResultError ToolSpec ToolUsed current_tool_context
load_agent_spec on_delegate on_handoff on_start on_stop on_tool resolve tool
"""


def test_declaring_agents_imports_no_heavy_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_the_exported_names_are_pinned() -> None:
    assert retinue.agents.__all__ == NAMES.split()
    for name in retinue.agents.__all__:
        assert getattr(retinue.agents, name) is not None


def test_errors_survive_pickling() -> None:
    import pickle

    for error in (
        retinue.agents.ToolArgumentError("x"),
        retinue.agents.ToolResultError("x"),
        retinue.agents.NotRunnableError("x", field="agent", mend="m"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


@pytest.mark.parametrize("kind", [retinue.agents.NotRunnableError, retinue.agents.ToolResultError])
def test_wrong_types_are_type_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, TypeError)
