"""Webhooks, from a run's end to its receiver: with workers and API processes that are killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.acceptance.http.http_rig import ApiProcess, HttpRig, http_rig
from tests.acceptance.http.receiver import Received, Receiver
from tests.acceptance.run_rig import DEADLINE_S

from retinue.client import SubagentLifecycle
from retinue.client.dispatch.connections import connections_for
from retinue.store import keys

Json = dict[str, Any]
HOOKS = {
    "http__webhook_allow_http": True,
    "http__webhook_private_hosts": "127.0.0.1",
    "http__webhook_timeout_seconds": 3.0,
    "http__webhook_retry_seconds": [0.2, 0.2, 0.2],
}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpRig]:
    """With one worker, and one API process that may post to this machine."""
    settings = {"http": {"webhook_allow_http": True}}
    with http_rig(tmp_path_factory.mktemp("hooks"), agents="echo_agents", **settings) as rig:
        rig.api(**HOOKS)
        rig.rig.worker(concurrency=4)
        yield rig


@pytest.fixture(scope="module")
def api(web: HttpRig) -> httpx2.Client:
    """A client that may do everything."""
    return web.http()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def endpoint(api: httpx2.Client, receiver: Receiver) -> Iterator[Json]:
    """A registered endpoint at the path /a of the receiver."""
    made = of(api.post("/v1/webhooks", json={"url": f"{receiver.url}/a"}), 201)
    yield made
    of_none = api.delete(f"/v1/webhooks/{made['webhook_id']}")
    assert of_none.status_code in (204, 404)


def of(answer: httpx2.Response, status: int = 200) -> Json:
    """The body of an answer with this status."""
    assert answer.status_code == status, answer.text
    return answer.json()


def launched(api: httpx2.Client, **fields: Any) -> str:
    """The id of a run of the echo agent that was launched."""
    body = {"session_id": "customer-42", "agent": "echo", "goal": "Say it.", **fields}
    return of(api.post("/v1/runs", json=body), 201)["run_id"]


def log(api: httpx2.Client, webhook_id: str) -> list[Json]:
    return of(api.get(f"/v1/webhooks/{webhook_id}/deliveries"))["deliveries"]


def wait_for_log(web: HttpRig, api: httpx2.Client, webhook_id: str, **wanted: Any) -> Json:
    """The newest delivery of an endpoint, once it is so."""

    def found() -> bool:
        page = log(api, webhook_id)
        return bool(page) and all(page[0][name] == value for name, value in wanted.items())

    web.rig.wait_until(found, f"a delivery with {wanted}")
    return log(api, webhook_id)[0]


def told_of(receiver: Receiver, run_id: str, path: str = "/a", count: int = 1) -> Received:
    """The last of what a path was told, which is all of this run and of one id."""
    received = receiver.wait_for(path, count)
    assert {each.run_id for each in received} == {run_id}
    assert len({each.message_id for each in received}) == 1
    return received[-1]


def test_an_endpoint_is_told_once_of_a_run_that_its_worker_ended_and_of_no_text(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    run_id = launched(api, goal="A secret goal.", metadata={"order": "hidden"})
    told = told_of(receiver, run_id)
    assert told.is_signed_with(endpoint["secret"])
    assert told.event["type"] == "run.finished"
    assert told.event["data"] == {
        "run_id": run_id,
        "session_id": "customer-42",
        "parent_id": None,
        "agent": "echo",
        "state": "SUCCEEDED",
        "error_classification": None,
    }
    assert told.headers["content-type"] == "application/json"
    shown = wait_for_log(web, api, endpoint["webhook_id"], state="delivered")
    assert (shown["run_id"], shown["attempts"], shown["response_status"]) == (run_id, 1, 204)
    assert len(receiver.received) == 1


def test_a_run_tells_its_own_webhook_too_signed_with_the_tenants_secret(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    made = of(api.post("/v1/webhooks/per-run/rotate-secret"))
    run_id = launched(api, webhook={"url": f"{receiver.url}/own?of=customer-42"})
    told = told_of(receiver, run_id, "/own?of=customer-42")
    assert told.is_signed_with(made["secret"])
    assert not told.is_signed_with(endpoint["secret"])
    assert told_of(receiver, run_id).message_id != told.message_id
    assert wait_for_log(web, api, "per-run", run_id=run_id, state="delivered")["url"].endswith("customer-42")
    other = of(api.post("/v1/webhooks/per-run/rotate-secret"))
    later = launched(api, webhook={"url": f"{receiver.url}/later"})
    told = told_of(receiver, later, "/later")
    assert told.is_signed_with(made["secret"])
    assert told.is_signed_with(other["secret"])


def direct(web: HttpRig, **settings: Any) -> SubagentLifecycle:
    """A facade in this process that has heard of the tenant's endpoint."""
    snapshot = connections_for(web.rig.settings).catalogue.snapshot(fresh=True)
    assert "_" in snapshot.webhook_tenants
    return web.rig.lifecycle("direct", **settings)


def unserved(web: HttpRig) -> SubagentLifecycle:
    """The same, and no worker takes its runs."""
    return direct(web, routes={"*": "nobody"})


def test_a_run_that_a_client_cancelled_is_told_of(web: HttpRig, receiver: Receiver, endpoint: Json) -> None:
    lifecycle = unserved(web)
    handle = lifecycle.launch(agent="echo", goal="Wait.")
    assert lifecycle.cancel(handle).accepted
    told = told_of(receiver, handle.subagent_id)
    assert told.event["data"]["state"] == "CANCELLED"


def test_a_run_that_a_timer_ended_is_told_of(web: HttpRig, receiver: Receiver, endpoint: Json) -> None:
    handle = unserved(web).launch(agent="echo", goal="Wait.", timeout_seconds=0.3)
    data = told_of(receiver, handle.subagent_id).event["data"]
    assert (data["state"], data["error_classification"]) == ("INTERRUPTED", "DEADLINE_EXCEEDED")


def test_a_receiver_that_fails_is_told_again_under_the_same_id(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    receiver.answer("/a", 500, 503)
    run_id = launched(api)
    told_of(receiver, run_id, count=3)
    shown = wait_for_log(web, api, endpoint["webhook_id"], state="delivered")
    assert (shown["attempts"], shown["response_status"], shown["error"]) == (3, 204, None)
    assert shown["delivery_id"] == receiver.at("/a")[0].message_id
    assert len({each.body for each in receiver.at("/a")}) == 1


def test_what_is_given_up_shows_in_the_log_and_can_be_delivered_again(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    receiver.answer("/a", 500, 500, 302, 404, location="http://127.0.0.1:1/")
    run_id = launched(api)
    path = f"/v1/webhooks/{endpoint['webhook_id']}/deliveries"
    shown = wait_for_log(web, api, endpoint["webhook_id"], state="failed")
    assert (shown["attempts"], shown["response_status"], shown["error"]) == (4, 404, "status")
    assert shown["next_attempt_at"] is None
    again = of(api.post(f"{path}/{shown['delivery_id']}/redeliver"), 202)
    assert (again["state"], again["attempts"]) == ("pending", 0)
    told_of(receiver, run_id, count=5)
    wait_for_log(web, api, endpoint["webhook_id"], state="delivered", attempts=1)


def test_a_receiver_that_is_gone_is_not_told_any_more_until_it_is_enabled(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    path = f"/v1/webhooks/{endpoint['webhook_id']}"
    receiver.answer("/a", 410)
    told_of(receiver, launched(api))
    web.rig.wait_until(lambda: of(api.get(path))["disabled"] == "gone", "disabled")
    missed = launched(api)
    of(api.get(f"/v1/runs/{missed}/wait", params={"timeout_seconds": DEADLINE_S}))
    web.rig.wait_until(lambda: not web.rig.store.exists(keys.letter("_", missed)), "it was looked at")
    assert of(api.post(f"{path}/enable"))["disabled"] is None
    run_id = launched(api)
    assert receiver.wait_for("/a", 2)[1].run_id == run_id


def test_two_processes_tell_each_end_once(web: HttpRig, receiver: Receiver, endpoint: Json) -> None:
    second = web.api(**HOOKS)
    clients = [web.http(), web.http(api=second)]
    runs = [launched(clients[n % 2]) for n in range(20)]
    receiver.wait_for("/a", len(runs))
    for run_id in runs:
        web.rig.wait_until(
            lambda run_id=run_id: any(
                each["run_id"] == run_id and each["state"] == "delivered"
                for each in log(clients[0], endpoint["webhook_id"])
            ),
            "all are delivered",
        )
    assert sorted(each.run_id for each in receiver.at("/a")) == sorted(runs)
    second.close()


def test_a_process_that_dies_between_posting_and_noting_it_down_is_followed_by_another_which_posts_again(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    process: ApiProcess = web.apis[0]
    receiver.before_answer("/a", process.process.kill)
    run_id = launched(api)
    receiver.wait_for("/a")
    web.rig.wait_until(lambda: not process.process.running, "the process is dead")
    process.start_again()
    told_of(receiver, run_id, count=2)
    wait_for_log(web, api, endpoint["webhook_id"], state="delivered", attempts=1)


def test_a_process_that_dies_with_a_letter_in_its_hand_leaves_it_to_the_next(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    process, store = web.apis[0], web.rig.store
    key = keys.webhook_endpoint("_", endpoint["webhook_id"])
    # Deliveries cannot be written meanwhile, so that the letter is taken and not told.
    store.rename(key, key + ":aside")
    store.set(key, "")
    run_id = launched(api)
    letter = keys.letter("_", run_id)
    web.rig.wait_until(lambda: bool(store.hget(letter, "to:w")), "the letter is taken")
    process.kill()
    store.rename(key + ":aside", key)
    process.start_again()
    told_of(receiver, run_id)
    web.rig.wait_until(lambda: not store.exists(letter), "it is told")
    assert len(receiver.at("/a")) == 1


def test_a_purge_takes_the_letter_with_it(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    process = web.apis[0]
    lifecycle = unserved(web)
    process.kill()
    purged, kept = (lifecycle.launch(agent="echo", goal="Wait.") for _ in range(2))
    for handle in (purged, kept):
        lifecycle.cancel(handle)
    assert lifecycle.purge(purged).purged
    process.start_again()
    told_of(receiver, kept.subagent_id)
    assert not web.rig.store.keys(keys.letter("_", purged.subagent_id) + "*")


def test_what_ended_while_no_process_lived_is_told_by_the_first(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    process = web.apis[0]
    lifecycle = direct(web)
    process.kill()
    handle = lifecycle.launch(agent="echo", goal="Say it.", webhook={"url": f"{receiver.url}/own"})
    web.rig.succeeded(lifecycle, handle)
    process.start_again()
    told_of(receiver, handle.subagent_id)
    told_of(receiver, handle.subagent_id, "/own")


def test_no_secret_and_no_url_stands_in_a_log_or_a_list(
    web: HttpRig, api: httpx2.Client, receiver: Receiver, endpoint: Json
) -> None:
    told_of(receiver, launched(api, webhook={"url": f"{receiver.url}/own"}))
    wait_for_log(web, api, endpoint["webhook_id"], state="delivered")
    shown = api.get("/v1/webhooks").text + api.get(f"/v1/webhooks/{endpoint['webhook_id']}").text
    written = "".join(path.read_text() for path in web.rig.trace("").glob("*.log"))
    assert "whsec_" not in shown + written
    assert receiver.url not in written
    assert f"webhook.delivered tenant=_ webhook={endpoint['webhook_id']}" in written
