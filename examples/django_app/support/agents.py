"""The agents of the shop: imported by workers, which set Django up first, so tools may use the models."""

from retinue.agents import Agent, SubAgentSpec, tool
from support.models import Passage


@tool(toolset="handbook", read_only=True)
def search_handbook(word: str) -> list[str]:
    """Find passages in the staff handbook that hold a word."""
    return [passage.text for passage in Passage.objects.filter(text__icontains=word)[:10]]


researcher = SubAgentSpec(
    name="researcher", description="Answers from the staff handbook.", tools=[search_handbook]
)
support = Agent(
    name="support",
    instructions="You are support, the help desk of a shop. Delegate research, then answer the customer.",
    model="gpt-5-mini",
    sub_agents=[researcher],
)
