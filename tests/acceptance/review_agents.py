"""An agent with a tool that users bring along: `launch_review` is theirs, all but its import line."""

from __future__ import annotations

from retinue.agents import Agent, tool
from retinue.client import SubagentLaunchRequest


@tool(toolset="file", read_only=True)
def read_file(path: str) -> str:
    """Read a file of the repository."""
    return f"contents of {path}"


@tool(toolset="shell")
def run_command(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


# fmt: off
def launch_review(ctx):
    # Call from a plugin tool or hook while an agent turn is active.
    service = ctx.subagent_lifecycle
    handle = service.launch(SubagentLaunchRequest(
        goal="Review this change for regressions.",
        context="Only inspect the supplied repository.",
        role="leaf",
        correlation_id="review-42",
        allowed_toolsets=("file",),
    ))
    # Persist handle.to_dict() if desired.
    if service.wait(handle, timeout_seconds=2).timed_out:
        return handle.to_dict()
    return service.result(handle)
# fmt: on


reviewer = Agent(
    name="reviewer",
    instructions="You are reviewer. Have the change reviewed, and report.",
    model="gpt-5-mini",
    tools=[launch_review, run_command],
)
