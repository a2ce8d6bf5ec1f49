"""The lifecycle example that users of the contract bring along, run inside a tool; its import is ours."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance import review_agents

from retinue.client import SubagentHandle, SubagentLifecycle, SubagentState
from retinue.testing import ScriptedServer
from retinue.testing.clients import LifecycleFactory
from retinue.testing.workers import WorkerFactory

_PROJECT = Path(__file__).parents[2]
_EXAMPLE = Path("seeds") / "004_8f8979f178dd9728.txt"


@pytest.fixture
def reviews(
    scripted_model: ScriptedServer,
    valkey_url: str,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> SubagentLifecycle:
    """A worker with one slot, and an agent whose model calls `launch_review` once."""
    scripted_model.script("reviewer").call("launch_review").then("Reported.")
    worker_process(
        valkey_url,
        agents=["review_agents"],
        concurrency=1,
        model_url=scripted_model.base_url,
        arguments=["--without-mingle", "--without-gossip"],
    )
    return lifecycle(valkey_url, session_id="review")


def child_script(model: ScriptedServer) -> Any:
    return model.script_where("child", lambda asked: asked.last_user.startswith("Review this change"))


def returned_by_the_tool(model: ScriptedServer) -> dict[str, Any]:
    """What the reviewer's model read as the tool's result."""
    last = model.requests("reviewer")[-1].request
    assert last is not None
    (result,) = last.last_results
    return json.loads(result.text)


def test_launch_review_returns_the_result_of_a_review_that_is_done_in_time(
    reviews: SubagentLifecycle, scripted_model: ScriptedServer
) -> None:
    child_script(scripted_model).call("read_file", {"path": "a.py"}).then("No regressions: ${results}")

    result = reviews.run(agent="reviewer", goal="Review change 42", wait_seconds=30)

    assert (result.terminal_state, result.summary) == (SubagentState.SUCCEEDED, "Reported.")
    returned = returned_by_the_tool(scripted_model)
    assert returned["terminal_state"] == "SUCCEEDED"
    assert returned["summary"] == "No regressions: contents of a.py"
    child = reviews.result(returned["handle"])
    # The tool's result is the whole result, so whoever keeps it can check it.
    assert returned == child.to_dict()
    assert child.compute_result_hash() == returned["result_hash"]
    asked = scripted_model.requests("child")[0].request
    assert asked is not None
    assert asked.tools == ("read_file",), "the granted toolset, and no other"
    assert asked.last_user == (
        "Review this change for regressions.\n\nContext:\nOnly inspect the supplied repository."
    )


def test_launch_review_returns_the_handle_of_a_review_that_takes_longer(
    reviews: SubagentLifecycle, scripted_model: ScriptedServer
) -> None:
    child_script(scripted_model).hold("reviewed").say("No regressions.")

    result = reviews.run(agent="reviewer", goal="Review change 42", wait_seconds=30)

    assert result.summary == "Reported."
    handle = SubagentHandle.from_dict(returned_by_the_tool(scripted_model))
    assert (handle.correlation_id, handle.role, handle.depth) == ("review-42", "leaf", 1)
    # The parent's end is the child's: its policy is the default one.
    ended = reviews.wait(handle, timeout_seconds=30)
    assert ended.state is SubagentState.CANCELLED


def test_the_example_is_the_documented_one() -> None:
    shared = Path(os.environ.get("RETINUE_SHARED", _PROJECT.parent / "shared"))
    if not (shared / _EXAMPLE).exists():
        pytest.skip("the documents are not at hand")

    # Without its wrapper, which makes it a tool, the function is in the document, letter by letter.
    written = inspect.getsource(review_agents.launch_review)
    assert written.strip() in (shared / _EXAMPLE).read_text(encoding="utf-8")
