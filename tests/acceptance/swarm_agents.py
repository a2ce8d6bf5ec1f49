"""Swarms of a front desk and two experts, a swarm for each way of handing off, and two more."""

from __future__ import annotations

from pyagentspec.agent import Agent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.llms.openaicompatibleconfig import OpenAIAPIType
from pyagentspec.property import StringProperty
from pyagentspec.swarm import HandoffMode, Swarm
from pyagentspec.tools import ServerTool

from retinue.agents import ToolContext, load_agent_spec, tool


@tool(toolset="ledger")
def note(line: str, ctx: ToolContext) -> str:
    """Append a line to the ledger; running it twice would show."""
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"{ctx.idempotency_key} {line}\n")
    return f"noted {line}"


NOTE = ServerTool(name="note", description="Notes a line.", inputs=[StringProperty(title="line")])


def _swarm(name: str, mode: HandoffMode, *, experts_api: OpenAIAPIType | None = None) -> Swarm:
    def member(role: str) -> Agent:
        prompt = f"Role: {name} {role};"
        api = experts_api if role != "front" and experts_api else OpenAIAPIType.CHAT_COMPLETIONS
        llm = OpenAiConfig(name=f"llm {api.value}", model_id=name, api_type=api)
        return Agent(
            name=f"{name} {role}", description=role, llm_config=llm, system_prompt=prompt, tools=[NOTE]
        )

    front, sums, words = member("front"), member("sums"), member("words")
    edges = [(front, sums), (front, words), (sums, words), (words, sums), (sums, front)]
    return Swarm(name=name, first_agent=front, relationships=edges, handoff=mode)


never = load_agent_spec(_swarm("never", HandoffMode.NEVER))
optional = load_agent_spec(_swarm("optional", HandoffMode.OPTIONAL))
always = load_agent_spec(_swarm("always", HandoffMode.ALWAYS))
mixed = load_agent_spec(_swarm("mixed", HandoffMode.OPTIONAL, experts_api=OpenAIAPIType.RESPONSES))
strict = load_agent_spec(_swarm("strict", HandoffMode.NEVER))
