"""Webhooks in one process over a real store: what is refused, and what bad receivers cannot do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from tests.acceptance.http.receiver import Receiver
from tests.integration.http.access_stage import AccessStage, access_stage
from tests.integration.http.bad_receivers import Manner, bad_receiver

from retinue.broker.settings.http import HttpSettings
from retinue.client import SubagentLaunchRequest
from retinue.contract import new_run_id
from retinue.http.webhooks import dispatcher as dispatching
from retinue.http.webhooks.dispatcher import Dispatcher
from retinue.http.webhooks.sending import Sender
from retinue.http.webhooks.targets import Targets, place_of
from retinue.store.operations import deliveries, webhooks
from retinue.store.operations.deliveries import Delivery, DeliveryState
from retinue.store.operations.webhooks import PER_RUN
from retinue.store.record import Record
from retinue.testing.servers import PrivateServer

DEADLINE_S = 60.0
HERE = {"webhook_allow_http": True, "webhook_private_hosts": ("127.0.0.1",)}
ENDED = Record({"sess": "customer-42", "ag": "support", "par": "", "st": "SUCCEEDED", "cls": "", "fi": "1"})


@pytest.fixture
async def front(valkey_server: PrivateServer) -> AsyncIterator[AccessStage]:
    """An application with its usual settings, and all of its parts."""
    valkey_server.flush()
    async with access_stage(valkey_server.url, parts=True) as made:
        yield made


class Post:
    """A process that delivers for tenant `_`, when it is told to."""

    def __init__(self, stage: AccessStage, settings: HttpSettings, targets: Targets) -> None:
        connections = stage.service.connections()
        self._store = connections.store
        sender = Sender(targets.guard, timeout_s=settings.webhook_timeout_seconds)
        self.dispatcher = Dispatcher(connections, sender, settings)

    async def endpoint(self, name: str, url: str) -> str:
        """The id of an endpoint that is registered without a look at its URL."""
        webhook_id = f"wh_{name}"
        call = webhooks.add_endpoint(
            "_", webhook_id, url=url, description="", secret=webhooks.new_secret(), most=99
        )
        await self._store.run(call)
        return webhook_id

    async def end(self, *, own_url: str | None = None, tenant: str = "_") -> str:
        """The id of a run that has ended, and whose deliveries stand."""
        run_id = new_run_id(0)
        call = deliveries.post(
            tenant,
            run_id,
            ENDED,
            own_url=own_url,
            own_place=place_of(own_url) if own_url else "",
            first_secret=webhooks.new_secret(),
        )
        await self._store.run(call)
        return run_id

    async def log(self, webhook_id: str) -> list[Delivery]:
        return await self._store.run(deliveries.read_page("_", webhook_id, after=None, most=100))

    async def wait_for(self, webhook_id: str, fits: Callable[[Delivery], object]) -> Delivery:
        """The endpoint's newest delivery, once it is so."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = await self.log(webhook_id)
            if found and fits(found[0]):
                return found[0]
            assert time.monotonic() < deadline, found
            await self.dispatcher.look()
            await asyncio.sleep(0.02)


@pytest.fixture
async def stage(valkey_server: PrivateServer) -> AsyncIterator[AccessStage]:
    """An application whose own parts do not run."""
    valkey_server.flush()
    async with access_stage(valkey_server.url) as made:
        yield made


@pytest.fixture
async def post(stage: AccessStage) -> AsyncIterator[Post]:
    """A process that may reach this machine; an attempt takes 4 s at most, and there are two."""
    settings = HttpSettings(webhook_timeout_seconds=4.0, webhook_retry_seconds=(0.1,), **HERE)  # type: ignore[arg-type]
    targets = Targets(settings)
    made = Post(stage, settings, targets)
    yield made
    await made.dispatcher.close(10.0)
    targets.close()


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/a",
        "https://127.0.0.1:9/a",
        "https://[::1]/a",
        "https://[::ffff:169.254.169.254]/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "https://0.0.0.0/a",
        "https://224.0.0.1/a",
        "https://2130706433/a",
        "https://localhost/a",
        "http://93.184.216.34/a",
        "https://user:pass@93.184.216.34/a",
        "gopher://93.184.216.34/a",
        "https://no-such-host.invalid/a",
    ],
)
async def test_what_may_not_be_posted_to_is_refused_when_it_is_registered(
    front: AccessStage, url: str
) -> None:
    answer = await front.http(front.issue().text).post("/v1/webhooks", json={"url": url})
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert answer.json()["field"] == "url"


@pytest.mark.parametrize("url", ["https://10.0.0.1/a", "https://127.0.0.1/a", "http://93.184.216.34/a"])
async def test_a_launch_with_such_a_webhook_is_refused(front: AccessStage, url: str) -> None:
    http = front.http(front.issue().text)
    launch = {"agent": "support", "goal": "Help.", "webhook": {"url": url}}
    alone = await http.post("/v1/runs", json={"session_id": "s", **launch})
    assert (alone.status_code, alone.json()["field"]) == (422, "webhook.url")
    many = await http.post("/v1/runs/batch", json={"session_id": "s", "requests": [launch, launch]})
    assert many.status_code == 422
    assert many.json()["field"].startswith("requests[")


async def test_a_launch_keeps_its_webhook_for_whoever_runs_it_again(front: AccessStage) -> None:
    http = front.http(front.issue().text)
    launch = {"agent": "support", "goal": "Help.", "webhook": {"url": "https://no-such-host.invalid/a"}}
    made = await http.post("/v1/runs", json={"session_id": "s", **launch})
    assert made.status_code == 201, made.text
    stored = await front.service.connections().link.execute("KEYS", "retinue:_:*:req")
    raw = await front.service.connections().link.execute("GET", stored[0])
    assert b'"webhook":{"url":"https://no-such-host.invalid/a"}' in raw
    request = SubagentLaunchRequest.parse(goal="Help.", webhook=launch["webhook"])
    assert SubagentLaunchRequest.parse(request.to_dict()).webhook == request.webhook


async def test_a_name_that_becomes_private_after_its_registration_is_not_reached(stage: AccessStage) -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]]

    async def rebound(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    settings = HttpSettings(webhook_allow_http=True, webhook_retry_seconds=(0.1,))
    targets = Targets(settings, rebound)
    with Receiver() as receiver:
        url = receiver.url.replace("127.0.0.1", "rebound.example") + "/a"
        await targets.check(url, field="url", must_resolve=True)
        post = Post(stage, settings, targets)
        endpoint = await post.endpoint("a", url)
        await post.end()
        over = await post.wait_for(endpoint, lambda each: each.state is DeliveryState.FAILED)
        assert (over.error, over.attempts, over.response_status) == ("target_refused", 2, None)
        assert receiver.received == []
    targets.close()


async def test_what_is_connected_to_is_the_address_that_was_looked_at(stage: AccessStage) -> None:
    asked: list[str] = []

    async def once(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    targets = Targets(HttpSettings(**HERE), once)  # type: ignore[arg-type]
    with Receiver() as receiver:
        post = Post(stage, HttpSettings(**HERE), targets)  # type: ignore[arg-type]
        endpoint = await post.endpoint("a", receiver.url.replace("127.0.0.1", "no-such-host.invalid") + "/a")
        await post.end()
        await post.wait_for(endpoint, lambda each: each.state is DeliveryState.DELIVERED)
        [received] = receiver.received
    assert received.headers["host"].startswith("no-such-host.invalid:")
    assert asked == ["no-such-host.invalid"]
    targets.close()


async def test_receivers_that_do_their_worst_keep_nobody_else_waiting_and_cost_one_time_limit(
    post: Post,
) -> None:
    bad = [manner for manner in Manner if manner is not Manner.ENDLESS_BODY]
    async with AsyncExitStack() as stack:
        ids = {
            manner: await post.endpoint(manner.value, await stack.enter_async_context(bad_receiver(manner)))
            for manner in bad
        }
        await post.end()
        await post.dispatcher.look()
        receiver = stack.enter_context(Receiver())
        good = await post.endpoint("good", f"{receiver.url}/a")
        await post.end()
        await post.wait_for(good, lambda each: each.state is DeliveryState.DELIVERED)
        over = {
            manner: await post.wait_for(found, lambda each: each.state is DeliveryState.FAILED)
            for manner, found in ids.items()
        }
        for manner, delivery in over.items():
            assert delivery.attempts == 2, manner
            assert (delivery.duration_ms or 0) < 12_000, manner
        assert {manner: delivery.error for manner, delivery in over.items()} == {
            Manner.SILENCE: "timeout",
            Manner.TRICKLE: "timeout",
            Manner.HUGE_HEAD: "protocol",
            Manner.INTERIM: "timeout",
            Manner.NO_HTTP: "protocol",
            Manner.CUT: "protocol",
        }


async def test_while_receivers_hang_a_good_one_is_told(post: Post) -> None:
    async with AsyncExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        silent = [await stack.enter_async_context(bad_receiver(Manner.SILENCE)) for _ in range(4)]
        ids = [await post.endpoint(f"silent{n}", url) for n, url in enumerate(silent)]
        for _ in range(3):
            await post.end()
        await post.dispatcher.look()
        good = await post.endpoint("good", f"{receiver.url}/a")
        await post.end()
        await post.wait_for(good, lambda each: each.state is DeliveryState.DELIVERED)
        pending = [delivery for found in ids for delivery in await post.log(found)]
        assert {delivery.state for delivery in pending} == {DeliveryState.PENDING}, "these still hang"


async def test_a_tenant_that_names_hanging_hosts_without_number_leaves_room_for_others(
    stage: AccessStage,
) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    settings = HttpSettings(webhook_timeout_seconds=2 * DEADLINE_S, **HERE)  # type: ignore[arg-type]
    targets = Targets(settings, resolve)
    post = Post(stage, settings, targets)
    with Receiver() as receiver:
        async with bad_receiver(Manner.SILENCE) as silent:
            for number in range(dispatching.LANES * 2):
                host = silent.replace("127.0.0.1", f"h{number}.example")
                await post.end(own_url=host, tenant="greedy")
            await post.dispatcher.look()
            await post.end(own_url=f"{receiver.url}/a")
            await post.wait_for(PER_RUN, lambda each: each.state is DeliveryState.DELIVERED)
            await post.dispatcher.close(0.1)
    targets.close()


async def test_a_name_server_that_hangs_costs_one_time_limit_and_keeps_nobody_else_waiting(
    stage: AccessStage,
) -> None:
    async def slow(host: str, _port: int) -> list[str]:
        if host == "slow.example":
            await asyncio.Event().wait()
        return ["127.0.0.1"]

    settings = HttpSettings(webhook_timeout_seconds=2.0, webhook_retry_seconds=(0.1,), **HERE)  # type: ignore[arg-type]
    targets = Targets(settings, slow)
    post = Post(stage, settings, targets)
    with Receiver() as receiver:
        hung = await post.endpoint("hung", "http://slow.example/a")
        good = await post.endpoint("good", f"{receiver.url}/a")
        await post.end()
        await post.wait_for(good, lambda each: each.state is DeliveryState.DELIVERED)
        over = await post.wait_for(hung, lambda each: each.state is DeliveryState.FAILED)
        assert (over.error, over.attempts) == ("timeout", 2)
    targets.close()


async def test_of_an_answer_no_body_is_read(post: Post) -> None:
    async with bad_receiver(Manner.ENDLESS_BODY) as url:
        endpoint = await post.endpoint("a", url)
        await post.end()
        told = await post.wait_for(endpoint, lambda each: each.state is DeliveryState.DELIVERED)
        assert told.response_status == 200


async def test_a_redirect_is_not_followed(post: Post) -> None:
    with Receiver() as receiver:
        receiver.answer("/a", 307, 308, location=f"{receiver.url}/elsewhere")
        endpoint = await post.endpoint("a", f"{receiver.url}/a")
        await post.end()
        over = await post.wait_for(endpoint, lambda each: each.state is DeliveryState.FAILED)
        assert (over.response_status, over.error) == (308, "status")
        assert [each.path for each in receiver.received] == ["/a", "/a"]


async def test_no_proxy_of_the_environment_is_asked(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        endpoint = await post.endpoint("a", f"{receiver.url}/a")
        await post.end()
        await post.wait_for(endpoint, lambda each: each.state is DeliveryState.DELIVERED)
        assert (len(receiver.received), proxy.received) == (1, [])


async def test_many_deliveries_to_one_place_all_arrive_and_few_at_a_time(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "AT_ONCE", 3)
    with Receiver() as receiver:
        runs = [await post.end(own_url=f"{receiver.url}/{n}") for n in range(10)]
        await post.wait_for(PER_RUN, lambda each: each.state is DeliveryState.DELIVERED)
        while any(each.state is DeliveryState.PENDING for each in await post.log(PER_RUN)):
            await post.dispatcher.look()
            await asyncio.sleep(0.02)
        assert sorted(each.run_id for each in receiver.received) == sorted(runs)


async def made(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    """A registered endpoint at a public address that nobody posts to."""
    answer = await http.post("/v1/webhooks", json={"url": "https://93.184.216.34/a", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_an_endpoint_is_made_shown_listed_rotated_and_deleted(front: AccessStage) -> None:
    http = front.http(front.issue().text)
    created = await made(http, description="desk")
    path = f"/v1/webhooks/{created['webhook_id']}"
    secret = created.pop("secret")
    assert (await http.get(path)).json() == created
    assert (await http.get("/v1/webhooks")).json() == {"webhooks": [created]}
    rotated = (await http.post(f"{path}/rotate-secret")).json()
    assert rotated["secret"] != secret
    assert rotated["former_secret_until"] > time.time() + 86_000
    assert (await http.get(f"{path}/deliveries")).json() == {"deliveries": [], "next_cursor": None}
    assert (await http.delete(path)).status_code == 204
    assert (await http.get(path)).status_code == 404
    assert (await http.get("/v1/webhooks")).json() == {"webhooks": []}
    snapshot = await front.service.connections().catalogue.snapshot(fresh=True)
    assert snapshot.webhook_tenants == frozenset()


async def test_a_process_makes_known_which_tenants_have_endpoints(stage: AccessStage) -> None:
    connections = stage.service.connections()
    call = webhooks.add_endpoint("acme", "wh_a", url="https://h.example", description="", secret="s", most=9)
    await connections.store.run(call)
    assert not (await connections.catalogue.snapshot(fresh=True)).webhook_tenants
    async with stage.app.router.lifespan_context(stage.app):
        deadline = time.monotonic() + DEADLINE_S
        while "acme" not in (await connections.catalogue.snapshot(fresh=True)).webhook_tenants:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_per_run_stands_for_the_webhooks_of_launches(front: AccessStage) -> None:
    http = front.http(front.issue().text)
    shown = (await http.get("/v1/webhooks/per-run")).json()
    assert (shown["url"], shown["former_secret_until"]) == (None, None)
    first = (await http.post("/v1/webhooks/per-run/rotate-secret")).json()
    assert (first["secret"][:6], first["former_secret_until"]) == ("whsec_", None)
    assert (await http.delete("/v1/webhooks/per-run")).status_code == 422
    assert (await http.get("/v1/webhooks/per-run")).status_code == 200


async def test_a_tenant_has_so_many_endpoints(valkey_server: PrivateServer) -> None:
    valkey_server.flush()
    async with access_stage(valkey_server.url, parts=True, http={"max_webhooks": 1}) as front:
        http = front.http(front.issue().text)
        await made(http)
        answer = await http.post("/v1/webhooks", json={"url": "https://93.184.216.34/a"})
        assert (answer.status_code, answer.json()["code"]) == (429, "CAPACITY_REACHED")


@pytest.mark.parametrize("webhook_id", ["wh_" + "0" * 24, "nonsense", "%00", "per-run:x", "a" * 300])
async def test_an_endpoint_that_is_none_is_not_found(front: AccessStage, webhook_id: str) -> None:
    http = front.http(front.issue().text)
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/enable"), ("GET", "/deliveries")):
        answer = await http.request(method, f"/v1/webhooks/{webhook_id}{rest}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), answer.text


@pytest.mark.parametrize("cursor", ["x", "W10", "WzEsMl0", "é", "bnVsbA"])
async def test_a_cursor_that_is_none_is_refused(front: AccessStage, cursor: str) -> None:
    http = front.http(front.issue().text)
    answer = await http.get("/v1/webhooks/per-run/deliveries", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["field"]) == (422, "cursor")


async def test_deliveries_come_page_by_page(front: AccessStage) -> None:
    http = front.http(front.issue().text)
    targets = front.service.webhook_targets
    post = Post(front, HttpSettings(), targets)
    runs = [await post.end(own_url="https://no-such-host.invalid/a") for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await http.get("/v1/webhooks/per-run/deliveries", params=params)).json()
        seen += [delivery["run_id"] for delivery in page["deliveries"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(runs)
