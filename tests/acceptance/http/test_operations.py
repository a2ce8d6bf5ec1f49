"""What is shown of a real worker's runs while they go on and after, and a drain by the API."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.acceptance.http.http_rig import HttpRig

from retinue.client import EventType


@pytest.fixture
def reply(web: HttpRig) -> Any:
    """Asks the API with a key of all scopes."""
    http = web.http()

    def get(path: str, **query: Any) -> Any:
        answer = http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return get


def test_a_delegation_is_shown_while_it_goes_on_and_after(web: HttpRig, reply: Any) -> None:
    model = web.rig.model
    model.script("boss").call("run_agent", {"name": "clerk", "task": "Count one."}).then("Counted.")
    model.script("clerk").call("count", {}).then("One.").hold("clerk")
    web.rig.worker(name="shown", concurrency=2)
    lifecycle = web.rig.lifecycle("shown")
    handle = lifecycle.launch(agent="boss", goal="Have it counted.")
    web.rig.wait_for_event(lifecycle, handle, EventType.TOOL_FINISHED)
    model.wait_for(lambda model: model.in_flight("clerk") == 1, timeout_s=45)

    boss, clerk = reply("/v1/live")["runs"]
    assert (boss["run_id"], boss["phase"], boss["worker"]) == (handle.subagent_id, "waiting_children", None)
    assert (clerk["parent_id"], clerk["agent"], clerk["depth"]) == (handle.subagent_id, "clerk", 1)
    assert (clerk["phase"], clerk["iteration"]) == ("model_call", 2)
    assert clerk["worker"] == f"shown@{socket.gethostname()}"
    assert clerk["input_tokens"] > 0
    said = reply(f"/v1/runs/{clerk['run_id']}/messages")["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["agent"] == "clerk"
    assert [call["name"] for call in said[1]["calls"]] == ["count"]
    assert (said[2]["call"], said[2]["text"]) == ("count", "counted")

    model.release("clerk")
    web.rig.result(lifecycle, handle)
    assert reply("/v1/live")["runs"] == []
    said = reply(f"/v1/runs/{handle.subagent_id}/messages")["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant"]
    assert (said[-1]["agent"], said[-1]["text"]) == ("boss", "Counted.")
    used = reply("/v1/usage", session="shown")
    assert (used["runs"], used["unknown"]) == (2, 0)
    assert used["by_agent"]["clerk"]["model_calls"] == 2
    assert used["total"]["model_calls"] == 4
    only = reply("/v1/usage", session="shown", agent="clerk")
    assert (only["runs"], only["total"]) == (1, used["by_agent"]["clerk"])


def test_a_worker_drains_when_the_api_is_asked(web: HttpRig, reply: Any) -> None:
    worker = web.rig.worker(name="leaving")
    [found] = [each for each in reply("/v1/workers")["workers"] if each["pid"] == worker.pid]
    assert {"boss", "clerk"} <= set(found["agents"])
    [queue] = [each for each in reply("/v1/queues")["queues"] if each["name"] == "retinue"]
    assert queue["queued"] == 0
    assert queue["workers"] >= 1
    assert web.http().post(f"/v1/workers/{found['process']}/drain").status_code == 202
    assert worker.wait(60) == 0
    assert worker.pid not in [each["pid"] for each in reply("/v1/workers")["workers"]]
    assert "boss" in [agent["name"] for agent in reply("/v1/agents")["agents"]]
