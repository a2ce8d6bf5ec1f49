"""Runs over HTTP, with workers as processes: launched, watched, steered, decided, stopped and removed."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.acceptance.http.http_rig import HttpRig
from tests.acceptance.run_rig import DEADLINE_S, RunRig

from retinue.contract import SubagentHandle
from retinue.testing.scripts import Script

Json = dict[str, Any]


@pytest.fixture(scope="module")
def rig(web: HttpRig) -> RunRig:
    """With one worker."""
    web.rig.worker(concurrency=4)
    return web.rig


@pytest.fixture(scope="module")
def api(web: HttpRig, rig: RunRig) -> httpx2.Client:
    """A client that may do everything."""
    return web.http()


def script(rig: RunRig, agent: str, word: str) -> Script:
    """What the agent's model says in runs with this word in their goal."""
    return rig.model.script(agent, when=lambda request: word in request.messages[0].text)


def launched(api: httpx2.Client, agent: str, goal: str, **fields: Any) -> str:
    """The path of a run that was launched."""
    body = {"session_id": "customer-42", "agent": agent, "goal": goal, **fields}
    answer = api.post("/v1/runs", json=body)
    assert answer.status_code == 201, answer.text
    return answer.headers["Location"]


def of(answer: httpx2.Response, status: int = 200) -> Json:
    """The body of an answer with this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def ended(api: httpx2.Client, path: str) -> Json:
    """The run's result, once it has ended."""
    end = of(api.get(f"{path}/wait", params={"timeout_seconds": DEADLINE_S}))
    assert end["completed"], end
    return of(api.get(f"{path}/result"))


def asked(api: httpx2.Client, path: str) -> Json:
    """What the run asks, once it does."""
    waited = of(api.get(f"{path}/wait", params={"until": "asked", "timeout_seconds": DEADLINE_S}))
    assert (waited["completed"], waited["timed_out"]) == (False, False), waited
    [request] = of(api.get(f"{path}/pending"))["requests"]
    return request


def test_a_run_is_launched_waited_for_and_read(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "first").call("count").then("It is done.")

    body = {"session_id": "customer-42", "agent": "clerk", "goal": "first", "metadata": {"order": 7}}
    answer = api.post("/v1/runs", json=body)

    made = of(answer, 201)
    path = answer.headers["Location"]
    assert path == f"/v1/runs/{made['run_id']}"
    assert SubagentHandle.from_dict(made["handle"]).subagent_id == made["run_id"]
    result = ended(api, path)
    assert result == rig.lifecycle("customer-42").result(made["handle"]).to_dict()
    assert (result["terminal_state"], result["summary"]) == ("SUCCEEDED", "It is done.")
    assert (result["metadata"], result["usage_metadata"]["tools"]) == ({"order": 7}, {"count": 1})
    status = of(api.get(path))
    assert (status["state"], status["phase"], status["agent"]) == ("SUCCEEDED", "", "clerk")
    assert of(api.get(f"{path}/text")) == {"text": "It is done."}
    assert of(api.get(f"{path}/reconnect")) == {"connected": True, "state": "SUCCEEDED", "diagnostic": None}
    [node] = of(api.get(f"{path}/tree"))["nodes"]
    assert (node["run_id"], node["state"]) == (made["run_id"], "SUCCEEDED")


def test_several_runs_are_launched_at_once_and_waited_for_together(api: httpx2.Client) -> None:
    requests = [{"agent": "echo", "goal": f"say {number}"} for number in range(3)]

    made = of(api.post("/v1/runs/batch", json={"session_id": "batch", "requests": requests}), 201)["runs"]
    runs = [made[0]["run_id"], made[1]["handle"], made[2]["run_id"], "sa-p00-" + "a" * 26]
    states = of(api.post("/v1/wait", json={"runs": runs, "timeout_seconds": DEADLINE_S}))["states"]
    results = of(api.post("/v1/results", json={"runs": runs}))["results"]

    assert [state["state"] for state in states] == ["SUCCEEDED"] * 3 + ["UNKNOWN"]
    assert [result["summary"] for result in results] == ["say 0", "say 1", "say 2", None]
    page = of(api.get("/v1/runs", params={"session": "batch"}))
    listed = {run["handle"]["subagent_id"]: run["handle"] for run in page["runs"]}
    assert listed == {run["run_id"]: run["handle"] for run in made}
    assert page["next_cursor"] is None


def test_a_steer_is_delivered_and_its_receipt_says_in_which_iteration(
    rig: RunRig, api: httpx2.Client
) -> None:
    script(rig, "clerk", "steered").call("count").hold("steered").then("done")
    path = launched(api, "clerk", "steered")
    rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, 30)

    body = {"text": "The customer lives in Germany.", "steer_id": "one"}
    assert of(api.post(f"{path}/steers", json=body), 202)["state"] == "queued"
    assert of(api.post(f"{path}/steers", json=body), 202)["state"] == "queued"
    rig.model.release("steered")
    result = ended(api, path)

    receipt = of(api.get(f"{path}/steers/one"))
    assert receipt == {"steer_id": "one", "state": "delivered", "iteration": 2, "text": None}
    assert result["steers"] == [receipt]
    late = of(api.post(f"{path}/steers", json={"text": "Too late."}), 202)
    assert (late["state"], late["text"]) == ("missed", "Too late.")


def test_what_needs_approval_waits_for_it_and_runs_once(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "approved").call("refund", {"order": 1}).then("${results}")
    path = launched(api, "clerk", "approved")

    request = asked(api, path)
    assert (request["tool"], request["arguments"], request["kind"]) == ("refund", {"order": 1}, "approval")
    assert of(api.get(path))["phase"] == "waiting_approval"
    decided = {"request_id": request["request_id"]}
    assert of(api.post(f"{path}/approve", json=decided)) == {"accepted": True, "reason": None}

    assert ended(api, path)["summary"] == "refunded 1"
    assert of(api.post(f"{path}/deny", json=decided)) == {"accepted": False, "reason": "ended"}


def test_what_is_denied_does_not_run(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "denied").call("refund", {"order": 2}).then("${results}")
    path = launched(api, "clerk", "denied")

    body = {"request_id": asked(api, path)["request_id"], "reason": "too much"}
    assert of(api.post(f"{path}/deny", json=body))["accepted"]

    assert "Reason: too much" in ended(api, path)["summary"]


def test_a_question_is_answered_with_any_json(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "locator", "answered").call("where_are_you", {"unit": "town"}).then("${results}")
    path = launched(api, "locator", "answered")

    body = {"request_id": asked(api, path)["request_id"], "value": {"place": "Münster"}}
    assert of(api.post(f"{path}/answer", json=body))["accepted"]

    assert ended(api, path)["summary"] == '{"place": "Münster"}'


def test_a_conversation_goes_on(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "turns").say("first").then("second")
    path = launched(api, "clerk", "turns")
    ended(api, path)

    answer = api.post(f"{path}/continue", json={"text": "And then?"})

    made = of(answer, 201)
    assert ended(api, answer.headers["Location"])["summary"] == "second"
    assert of(api.get(answer.headers["Location"]))["continues"] == path.rpartition("/")[2]
    assert made["handle"]["parent_session_id"] == "customer-42"


def test_a_cancel_reaches_the_whole_tree(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "boss", "whole tree").call("run_agent", {"name": "clerk", "task": "leaf of it"}).then("no")
    script(rig, "clerk", "leaf of it").hold("leaf").then("no")
    path = launched(api, "boss", "whole tree")
    rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, 30)

    done = of(api.post(f"{path}/cancel", json={"reason": "the customer has left"}))

    assert (done["accepted"], done["state"]) == (True, "CANCEL_REQUESTED")
    assert ended(api, path)["terminal_state"] == "CANCELLED"
    rig.wait_until(
        lambda: {node["state"] for node in of(api.get(f"{path}/tree"))["nodes"]} == {"CANCELLED"},
        "both are cancelled",
    )
    again = of(api.post(f"{path}/cancel"))
    assert (again["accepted"], again["already_terminal"]) == (False, True)
    below = of(api.get("/v1/runs", params={"tree": path.rpartition("/")[2], "agent": "clerk"}))
    assert [run["state"] for run in below["runs"]] == ["CANCELLED"], of(api.get(f"{path}/tree"))


def test_an_interrupted_run_keeps_what_it_said(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "interrupted").say("So far.").hold("soft").call("count").then("no")
    path = launched(api, "clerk", "interrupted")
    rig.model.wait_for(lambda model: model.in_flight("clerk") == 1, 30)

    assert of(api.post(f"{path}/interrupt"))["accepted"]
    rig.model.release("soft")

    assert ended(api, path)["terminal_state"] in ("INTERRUPTED", "SUCCEEDED")


def test_a_raised_budget_lets_a_paused_run_go_on(rig: RunRig, api: httpx2.Client) -> None:
    script(rig, "clerk", "paused").call("count").then("on it goes")
    path = launched(api, "clerk", "paused", budget={"tokens": 1})
    waited = of(api.get(f"{path}/wait", params={"until": "asked", "timeout_seconds": DEADLINE_S}))
    assert not waited["timed_out"]
    assert of(api.get(path))["phase"] == "paused_budget"

    raised = of(api.post(f"{path}/budget", json={"tokens": 1_000_000}))

    assert (raised["accepted"], raised["budget"]["tokens"]["limit"]) == (True, 1_000_000)
    assert ended(api, path)["summary"] == "on it goes"


def test_a_purged_run_is_gone(api: httpx2.Client) -> None:
    path = launched(api, "echo", "forget me")
    ended(api, path)

    assert of(api.delete(path)) == {
        "purged": True, "runs": 1, "live_run_id": None, "unknown_handle": False,
    }  # fmt: skip

    problem = of(api.get(path), 404)
    assert problem["code"] == "UNKNOWN_HANDLE"


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"goal": ""}, 422, "INVALID_REQUEST", "goal"),
        ({"goal": "x", "agent": "nobody"}, 422, "UNKNOWN_AGENT", "agent"),
        ({"goal": "x", "agent": "/etc/passwd"}, 422, "UNKNOWN_AGENT", "agent"),
        ({"goal": "x", "agent_spec": "/etc/passwd"}, 422, "INVALID_REQUEST", "agent_spec"),
        ({"goal": "x", "budget": {"usd": -1}}, 422, "INVALID_REQUEST", "budget.usd"),
        ({"goal": "x", "allowed_toolsets": ["no such"]}, 422, "UNKNOWN_TOOLSET", "allowed_toolsets"),
        ({"goal": "x", "session": "s"}, 422, "INVALID_REQUEST", "session"),
        ({"goal": "x", "session_id": 3}, 422, "INVALID_REQUEST", "session_id"),
    ],
)
def test_a_launch_that_is_refused_says_what_to_mend(
    api: httpx2.Client, body: Json, status: int, code: str, field: str
) -> None:
    answer = api.post("/v1/runs", json={"session_id": "s", **body})

    problem = of(answer, status)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (problem["code"], problem["field"]) == (code, field)
    assert problem["mend"]


def test_a_taken_correlation_id_is_a_conflict(api: httpx2.Client) -> None:
    first = launched(api, "echo", "once", correlation_id="taken")

    body = {"session_id": "customer-42", "agent": "echo", "goal": "twice", "correlation_id": "taken"}
    assert of(api.post("/v1/runs", json=body), 409)["code"] == "DUPLICATE_CORRELATION"
    assert launched(api, "echo", "once", correlation_id="taken", on_duplicate="return") == first
