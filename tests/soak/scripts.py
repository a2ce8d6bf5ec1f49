"""What the models of a soak say. Tasks of children bear their parent's, so that each run's is its own."""

from __future__ import annotations

from pyagentspec.agent import Agent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.property import StringProperty
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import ServerTool

from retinue.testing import Call, ScriptedRequest, ScriptedServer, Turn

WALKS = 6
"""Iterations of a walker, to be steered and cancelled in."""
PROBE = "probe"
"""The gate at which probes are held."""


def script_models(model: ScriptedServer) -> None:
    """Scripts all agents of a soak."""
    # A steer that comes late costs one more turn: the last one again, then without results.
    model.script("leaf").call("note", {"line": "${user}"}).then("heard ${results}").repeat_last()
    model.script("boss").call("run_agent", _task("leaf", 0)).call("run_agent", _task("leaf", 1)).call(
        "run_agent", _task("leaf", 2)
    ).then("heard ${results}").repeat_last()
    model.script("chief").call("run_agent", _task("boss", 0)).call("run_agent", _task("boss", 1)).then(
        "heard ${results}"
    ).repeat_last()
    model.script("clerk").call("refund", {"order": "${user}"}).call("note", {"line": "${user}"}).then(
        "heard ${results}"
    ).repeat_last()
    model.script("waiter").call("ask_and_wait", {"task": "${user}.0"}).then("heard ${results}").repeat_last()
    model.script("walker").reply(_walk)
    model.script("greeter").call("handoff_conversation", {"recipient": "expert"})
    model.script("expert").reply(_expert)
    model.script("probe").hold(PROBE).say("free")


def swarm() -> Swarm:
    """A greeter that hands over to an expert, as a document of its own."""
    llm = OpenAiConfig(name="llm", model_id="scripted")
    tool = ServerTool(name="note", description="Writes a line.", inputs=[StringProperty(title="line")])
    greeter = Agent(name="greeter", description="Greets.", llm_config=llm, system_prompt="You are greeter.")
    expert = Agent(
        name="expert", description="Knows.", llm_config=llm, system_prompt="You are expert.", tools=[tool]
    )
    return Swarm(
        name="desk", first_agent=greeter, relationships=[(greeter, expert)], handoff=HandoffMode.OPTIONAL
    )


def _task(agent: str, number: int) -> dict[str, str]:
    return {"name": agent, "task": f"${{user}}.{number}"}


def _walk(request: ScriptedRequest) -> Turn | str:
    if request.turn >= WALKS:
        return "arrived"
    tool = Call("measure") if request.turn % 3 == 2 else Call("note", {"line": f"step {request.turn}"})
    return Turn(calls=(tool,), first_byte_after_s=0.15)


def _expert(request: ScriptedRequest) -> Turn | str:
    return "known" if request.results_of("note") else Turn(calls=(Call("note", {"line": "expert"}),))
