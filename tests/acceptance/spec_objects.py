"""An agent and a group built with pyagentspec in Python; the objects themselves are declarations."""

from __future__ import annotations

import time
from pathlib import Path

from pyagentspec.agent import Agent
from pyagentspec.llms import OpenAiConfig
from pyagentspec.managerworkers import ManagerWorkers
from pyagentspec.property import FloatProperty, StringProperty
from pyagentspec.tools import ServerTool

from retinue.agents import tool

# Without a URL: the endpoint and key of the provider `openai` in the settings.
llm = OpenAiConfig(name="llm", model_id="gpt-5-mini")


@tool(name="Look up price", read_only=True)
def look_up_price(article: str) -> float:
    """The price of an article; that of a rare one is known once the file `price` is there."""
    if article == "rare":
        Path("asked").touch()
        limit = time.monotonic() + 20
        while not Path("price").exists() and time.monotonic() < limit:
            time.sleep(0.01)
    return {"lamp": 19.5}.get(article, 0.0)


clerk = Agent(
    name="clerk",
    description="Knows the prices.",
    llm_config=llm,
    system_prompt="You are clerk. Look prices up. The shop is {{shop}}.",
    tools=[
        ServerTool(
            name="Look up price",
            description="The price of an article in euros.",
            inputs=[StringProperty(title="article")],
            outputs=[FloatProperty(title="price")],
        )
    ],
)
translator = Agent(name="translator", llm_config=llm, system_prompt="You are translator. Translate.")
desk = ManagerWorkers(
    name="desk",
    group_manager=Agent(
        name="head", llm_config=llm, system_prompt="Answer customers of {{shop}}.", description="Answers."
    ),
    workers=[clerk, translator],
)
office = ManagerWorkers(
    name="office",
    group_manager=Agent(
        name="chief", llm_config=llm, system_prompt="Run the office of {{shop}}.", description="Decides."
    ),
    workers=[desk],
)
