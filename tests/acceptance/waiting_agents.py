"""Agents whose tools launch and wait, in the ways in which they can."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from retinue.agents import Agent, ToolContext, tool
from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle


@tool
def launch_both_ways(ctx: ToolContext) -> str:
    """Launch one child by the context, one by it again, and one by a facade made here; wait for all."""
    handles = [
        ctx.subagent_lifecycle.launch(agent="hand", goal="by the context"),
        ctx.subagent_lifecycle.launch(agent="hand", goal="by the context again"),
        SubagentLifecycle().launch(agent="hand", goal="by a facade"),
    ]
    ctx.subagent_lifecycle.wait(handles[0], timeout_seconds=60)
    SubagentLifecycle().wait_all(handles, timeout_seconds=60)
    return ", ".join(str(ctx.subagent_lifecycle.result(handle).summary) for handle in handles)


@tool
async def launch_async() -> str:
    """Launch a child and await its end on the worker's own event loop."""
    lifecycle = AsyncSubagentLifecycle()
    handle = await lifecycle.launch(agent="hand", goal="asynchronous")
    await lifecycle.wait(handle, timeout_seconds=60)
    return str((await lifecycle.result(handle)).summary)


@tool
async def launch_wrongly(ctx: ToolContext) -> str:
    """Call the synchronous facade on the event loop."""
    ctx.subagent_lifecycle.launch(agent="hand", goal="never")
    return "never"


@tool
def wait_for_many(count: int, ctx: ToolContext) -> str:
    """Launch children and wait for each in an OS thread of its own."""
    lifecycle = ctx.subagent_lifecycle
    handles = [lifecycle.launch(agent="hand", goal=f"many {number}") for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        ended = list(pool.map(partial(lifecycle.wait, timeout_seconds=60), handles))
    return ", ".join(one.state for one in ended)


hand = Agent(name="hand", instructions="You are hand.", model="scripted")
boss = Agent(
    name="boss",
    instructions="You are boss.",
    model="scripted",
    tools=[launch_both_ways, launch_async, launch_wrongly, wait_for_many],
)
