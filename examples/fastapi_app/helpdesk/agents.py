"""The agents of the help desk: imported by workers, and only named by the web application."""

from retinue.agents import Agent, SubAgentSpec, tool

HANDBOOK = (
    "Unopened goods may be returned within 30 days.",
    "Opened headphones may be returned within 14 days, for hygiene without the ear pads.",
    "A refund takes three working days.",
)


@tool(toolset="handbook", read_only=True)
def search_handbook(query: str) -> list[str]:
    """Find passages in the staff handbook that hold a word of the query."""
    words = {word.strip(".,?!").lower() for word in query.split() if len(word) > 3}
    return [passage for passage in HANDBOOK if any(word in passage.lower() for word in words)]


researcher = SubAgentSpec(
    name="researcher", description="Answers from the staff handbook.", tools=[search_handbook]
)
support = Agent(
    name="support",
    instructions="You are support, the help desk of a shop. Delegate research, then answer the customer.",
    model="gpt-5-mini",
    sub_agents=[researcher],
)
