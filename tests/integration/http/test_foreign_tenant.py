"""Every route against those who have no business there: a foreign tenant, a revoked key, too small a scope.

A route that is new fails here until it has a row, so that nobody forgets to say who may use it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import pytest
from fastapi import FastAPI
from tests.integration.client.store_worker import PROCESS, StoreWorker
from tests.integration.http.access_stage import AccessStage, access_stage, shown

from retinue.broker.settings import Settings
from retinue.http.app import create_app
from retinue.store.operations.api_keys import Scope, revoke_key

TENANT, STRANGER = "acme", "rival"
SECRET = "hush"
"""Stands in all that the first tenant said and named."""

PUBLIC: Final = {
    ("GET", "/"),
    ("GET", "/assets/{digest}/{name}"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/v1/openapi.json"),
}
"""They tell what anybody may know."""


@dataclass(frozen=True)
class Use:
    """How a route is used.

    Args:
        scope: The least that it takes.
        body: JSON that it accepts. None = none.
        query: Its parameters.
        status: What a foreign tenant's key of all scopes gets, where the ids are the first tenant's.
        is_shared: It is about workers, which all tenants share: an admin of any may use it.
    """

    scope: Scope
    body: Any = None
    query: dict[str, Any] = field(default_factory=dict)
    status: int = 404
    is_shared: bool = False


READ, WRITE, ADMIN = Scope.READ, Scope.WRITE, Scope.ADMIN
RUN: Final = "/v1/runs/{run_id}"
LAUNCH: Final = {"agent": "support", "goal": "g"}
OF_REQUEST: Final = {"request_id": "{request_id}"}

USES: Final[dict[tuple[str, str], Use]] = {
    ("POST", "/v1/runs"): Use(WRITE, {"session_id": f"{SECRET}-session", **LAUNCH}, status=201),
    ("POST", "/v1/runs/batch"): Use(
        WRITE, {"session_id": f"{SECRET}-session", "requests": [LAUNCH]}, status=201
    ),
    ("GET", "/v1/runs"): Use(READ, query={"session": f"{SECRET}-session"}, status=200),
    ("POST", "/v1/wait"): Use(READ, {"runs": ["{run_id}"], "mode": "any", "timeout_seconds": 0}, status=200),
    ("POST", "/v1/results"): Use(READ, {"runs": ["{run_id}"]}, status=200),
    ("GET", RUN): Use(READ),
    ("DELETE", RUN): Use(WRITE),
    ("GET", f"{RUN}/tree"): Use(READ),
    ("GET", f"{RUN}/result"): Use(READ),
    ("GET", f"{RUN}/text"): Use(READ),
    ("GET", f"{RUN}/reconnect"): Use(READ),
    ("GET", f"{RUN}/wait"): Use(READ, query={"timeout_seconds": 0}),
    ("GET", f"{RUN}/events"): Use(READ),
    ("GET", f"{RUN}/events/stream"): Use(READ),
    ("GET", f"{RUN}/messages"): Use(READ),
    ("GET", f"{RUN}/pending"): Use(READ),
    ("GET", f"{RUN}/steers/{{steer_id}}"): Use(READ),
    ("POST", f"{RUN}/steers"): Use(WRITE, {"text": "Stop it."}),
    ("POST", f"{RUN}/cancel"): Use(WRITE, {}),
    ("POST", f"{RUN}/interrupt"): Use(WRITE, {}),
    ("POST", f"{RUN}/continue"): Use(WRITE, {"text": "Go on."}),
    ("POST", f"{RUN}/approve"): Use(WRITE, OF_REQUEST),
    ("POST", f"{RUN}/deny"): Use(WRITE, OF_REQUEST),
    ("POST", f"{RUN}/answer"): Use(WRITE, {**OF_REQUEST, "value": "yes"}),
    ("POST", f"{RUN}/budget"): Use(WRITE, {"tokens": 1_000_000}),
    ("GET", "/v1/live"): Use(READ, status=200),
    ("GET", "/v1/usage"): Use(READ, query={"session": f"{SECRET}-session"}, status=200),
    ("GET", "/v1/agents"): Use(READ, status=200),
    ("GET", "/v1/toolsets"): Use(READ, status=200),
    ("GET", "/v1/queues"): Use(ADMIN, status=200),
    ("GET", "/v1/workers"): Use(ADMIN, status=200),
    ("POST", "/v1/workers/{process}/drain"): Use(ADMIN, is_shared=True),
    ("GET", "/v1/dead-letters"): Use(ADMIN, status=200),
    ("GET", "/v1/dead-letters/{run_id}"): Use(ADMIN),
    ("DELETE", "/v1/dead-letters/{run_id}"): Use(ADMIN),
    ("POST", "/v1/dead-letters/{run_id}/replay"): Use(ADMIN),
    ("POST", "/v1/webhooks"): Use(ADMIN, {"url": "http://127.0.0.1:9/own"}, status=201),
    ("GET", "/v1/webhooks"): Use(ADMIN, status=200),
    ("GET", "/v1/webhooks/{webhook_id}"): Use(ADMIN),
    ("DELETE", "/v1/webhooks/{webhook_id}"): Use(ADMIN),
    ("POST", "/v1/webhooks/{webhook_id}/rotate-secret"): Use(ADMIN),
    ("POST", "/v1/webhooks/{webhook_id}/enable"): Use(ADMIN),
    ("GET", "/v1/webhooks/{webhook_id}/deliveries"): Use(ADMIN),
    ("POST", "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"): Use(ADMIN),
    ("GET", "/v1/whoami"): Use(READ, status=200),
}


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """Every method and path that the application answers, those that its document hides included."""
    found: set[tuple[str, str]] = set()
    waiting: list[Any] = list(app.routes)
    while waiting:
        route = waiting.pop()
        inner = getattr(route, "original_router", None)
        waiting += getattr(route, "routes", None) or getattr(inner, "routes", None) or []
        methods: set[str] = getattr(route, "methods", None) or set()
        found |= {(method, route.path) for method in methods - {"HEAD"}}
    found |= {
        (method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods
    }
    return found


APP: Final = create_app(Settings.read(store_url="redis://127.0.0.1:1/0"))
ROUTES: Final = sorted(routes_of(APP) & USES.keys())


def test_every_route_has_a_row_here_and_every_row_a_route() -> None:
    routes = routes_of(APP)
    assert len(routes) > 20, "the routes are found at all"
    assert routes - USES.keys() - PUBLIC == set()
    assert USES.keys() - routes == set()


class Scene:
    """What the first tenant has: two runs, one of which has ended, a letter, a webhook."""

    def __init__(self, front: AccessStage, worker: StoreWorker) -> None:
        self.front = front
        self.worker = worker
        self.ids: dict[str, str] = {}
        self.ended = ""
        self.owner = front.issue(TENANT).text

    async def prepare(self) -> None:
        lifecycle = self.front.service.lifecycle(TENANT, f"{SECRET}-session")
        live, ended, lost = [await lifecycle.launch(agent="support", goal=f"{SECRET} {n}") for n in range(3)]
        steered = await lifecycle.send_steer(live, f"{SECRET} steer")
        self.worker.complete(ended, f"{SECRET} result")
        self.worker.give_up(lost)
        webhook = await self.front.http(self.owner).post(
            "/v1/webhooks", json={"url": f"http://127.0.0.1:9/{SECRET}"}
        )
        assert webhook.status_code == 201, webhook.text
        self.handles = {"live": live, "ended": ended}
        self.ended = ended.subagent_id
        self.ids = {
            "run_id": live.subagent_id,
            "lost": lost.subagent_id,
            "steer_id": steered.steer_id,
            "process": PROCESS,
            "webhook_id": webhook.json()["webhook_id"],
            "delivery_id": "msg_" + "0" * 40,
            "request_id": "r" * 20,
        }

    def request(self, method: str, path: str) -> dict[str, Any]:
        """The request of a route, with the first tenant's ids."""
        ids = dict(self.ids)
        if path.startswith("/v1/dead-letters"):
            ids["run_id"] = ids["lost"]
        elif method == "GET" and "steer" not in path:
            ids["run_id"] = self.ended
        use = USES[method, path]
        return {
            "method": method,
            "url": path.format(**ids),
            "json": _filled(use.body, ids),
            "params": use.query,
        }

    def dump(self) -> dict[bytes, bytes]:
        """All that is stored, but for what passes by itself."""
        link = self.worker.link
        names = [
            name for name in link.execute("KEYS", "retinue:*") if not name.startswith(b"retinue:{http}:rate:")
        ]
        return {name: link.execute("DUMP", name) for name in names}

    def own(self, stored: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """The part of it that is the first tenant's."""
        return {name: value for name, value in stored.items() if f":{TENANT}:".encode() in name}


def _filled(body: Any, ids: dict[str, str]) -> Any:
    match body:
        case dict():
            return {name: _filled(value, ids) for name, value in body.items()}
        case list():
            return [_filled(value, ids) for value in body]
        case str():
            return body.format(**ids)
        case _:
            return body


@pytest.fixture
async def scene(valkey_url: str) -> AsyncIterator[Scene]:
    http = {"webhook_allow_http": True, "webhook_allow_private_targets": True}
    async with access_stage(valkey_url, parts=True, http=http) as front, AsyncExitStack() as stack:
        worker = StoreWorker(valkey_url, TENANT)
        stack.callback(worker.close)
        made = Scene(front, worker)
        await made.prepare()
        yield made


def _assert_problem(answer: httpx2.Response, status: int, where: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), where
    _assert_tells_nothing(answer, where)


def _assert_tells_nothing(answer: httpx2.Response, where: str) -> None:
    told = answer.text
    for asked in answer.request.url.params.values():
        told = told.replace(asked, "")
    assert SECRET not in told, where
    assert "capability" not in told, where


async def test_a_foreign_tenants_key_gets_nothing_and_changes_nothing(scene: Scene) -> None:
    stranger = scene.front.http(scene.front.issue(STRANGER).text)
    before = scene.own(scene.dump())
    assert before
    for method, path in ROUTES:
        use, where = USES[method, path], f"{method} {path}"
        if use.is_shared:
            continue
        answer = await stranger.request(**scene.request(method, path))
        if use.status >= 400:
            _assert_problem(answer, use.status, where)
        else:
            assert answer.status_code == use.status, (where, answer.text)
            if use.status == 200:
                _assert_tells_nothing(answer, where)
                _assert_no_ids(scene, answer, where)
        assert scene.own(scene.dump()) == before, where


def _assert_no_ids(scene: Scene, answer: httpx2.Response, where: str) -> None:
    """No id of the first tenant is told that was not asked for."""
    asked = answer.request.content.decode()
    told = [run_id for run_id in (*scene.ids.values(), scene.ended) if run_id in answer.text]
    assert [run_id for run_id in told if run_id not in asked and run_id != scene.ids["process"]] == [], where


async def test_a_foreign_key_and_a_genuine_handle_do_not_go_together(scene: Scene) -> None:
    stranger = scene.front.issue(STRANGER).text
    before = scene.dump()
    for method, path in ROUTES:
        if not path.startswith(RUN):
            continue
        request = scene.request(method, path)
        handle = scene.handles["live" if scene.ids["run_id"] in request["url"] else "ended"]
        answer = await scene.front.http(stranger, Retinue_Handle=shown(handle)).request(**request)
        _assert_problem(answer, 404, f"{method} {path}")
    assert scene.dump() == before


@pytest.mark.parametrize("who", ["nobody", "garbage", "no such key", "another secret", "revoked", "expired"])
async def test_whoever_has_no_good_key_gets_401_everywhere(scene: Scene, who: str) -> None:
    revoked = scene.front.issue(TENANT)
    scene.worker.store.run(revoke_key(revoked.key.key_id))
    key = {
        "nobody": "",
        "garbage": "garbage",
        "no such key": "rtn_" + "a" * 12 + "_" + "a" * 32,
        "another secret": scene.owner[:-1] + ("a" if scene.owner[-1] != "a" else "b"),
        "revoked": revoked.text,
        "expired": scene.front.issue(TENANT, expires_days=1e-9).text,
    }[who]
    client, before = scene.front.http(key), scene.dump()
    for method, path in ROUTES:
        answer = await client.request(**scene.request(method, path))
        _assert_problem(answer, 401, f"{who}: {method} {path}")
    assert scene.dump() == before


@pytest.mark.parametrize("scope", [READ, WRITE])
async def test_a_key_of_a_smaller_scope_gets_403_and_changes_nothing(scene: Scene, scope: Scope) -> None:
    client = scene.front.http(scene.front.issue(TENANT, [scope]).text)
    covered = {READ: {READ}, WRITE: {READ, WRITE}}[scope]
    before = scene.dump()
    for method, path in ROUTES:
        if USES[method, path].scope not in covered:
            answer = await client.request(**scene.request(method, path))
            _assert_problem(answer, 403, f"{method} {path}")
    assert scene.dump() == before


async def test_a_handle_alone_opens_no_route_but_those_of_its_run(scene: Scene) -> None:
    holder = scene.front.http(Retinue_Handle=shown(scene.handles["ended"]), Retinue_Tenant=TENANT)
    before = scene.dump()
    for method, path in ROUTES:
        request = scene.request(method, path)
        if scene.ended in request["url"]:
            continue
        _assert_problem(await holder.request(**request), 401, f"{method} {path}")
    assert scene.dump() == before


async def test_the_owner_gets_what_the_others_do_not(scene: Scene) -> None:
    """Else the refusals above would say nothing."""
    owner = scene.front.http(scene.owner)
    for method, path in ROUTES:
        if method == "GET":
            answer = await owner.request(**scene.request(method, path))
            assert answer.status_code == 200, (path, answer.text)
