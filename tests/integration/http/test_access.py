"""Who comes in: by key, by token, by a run's handle; and what nobody learns on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.integration.http.access_stage import AccessStage, access_stage, shown

from retinue.contract import new_run_id
from retinue.store import keys
from retinue.store.operations.api_keys import revoke_key
from retinue.testing.proxy import FaultProxy
from retinue.testing.servers import PrivateServer

SIGNER = RSAKey.generate_key(2048)
JWT = {"issuer": "https://login.example", "audience": "retinue", "keys": SIGNER.as_pem(False).decode()}


@pytest.fixture
async def front(valkey_url: str) -> AsyncIterator[AccessStage]:
    async with access_stage(valkey_url, http={"jwt": JWT}) as made:
        yield made


def _problem(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    told.pop("request_id", None)
    return told


def _token(**changes: Any) -> str:
    claims = {
        "iss": JWT["issuer"],
        "aud": JWT["audience"],
        "sub": "alice",
        "exp": int(time.time()) + 300,
        "tenant": "acme",
        "scope": "run:read",
        **changes,
    }
    return jwt.encode({"alg": "RS256"}, claims, SIGNER)


async def test_whoami_says_what_a_key_amounts_to(front: AccessStage) -> None:
    issued = front.issue("acme", ["run:write"], name="shop")
    answer = await front.http(issued.text).get("/v1/whoami")
    assert (answer.status_code, answer.json()) == (
        200,
        {"tenant": "acme", "scopes": ["run:write"], "key_id": issued.key.key_id, "name": "shop"},
    )
    assert issued.text.rpartition("_")[2] not in answer.text


async def test_whoami_says_what_a_token_amounts_to(front: AccessStage) -> None:
    answer = await front.http(_token()).get("/v1/whoami")
    assert answer.json() == {"tenant": "acme", "scopes": ["run:read"], "key_id": "jwt:alice", "name": ""}


async def test_all_that_is_no_good_gets_the_same_401(front: AccessStage) -> None:
    good, revoked, expired = front.issue(), front.issue(), front.issue(expires_days=1e-9)
    front.worker.store.run(revoke_key(revoked.key.key_id))
    other = good.text[:-1] + ("a" if good.text[-1] != "a" else "b")
    headers: list[dict[str, str]] = [
        {"Authorization": value}
        for value in (
            "",
            "Bearer",
            "Bearer ",
            f"Basic {good.text}",
            f"Bearer {good.text} x",
            "Bearer nonsense",
            f"Bearer {other}",
            f"Bearer {revoked.text}",
            f"Bearer {expired.text}",
            f"Bearer {_token(exp=1)}",
            f"Bearer {_token(tenant='a:b')}",
        )
    ]
    handle = await front.run()
    headers += [{}, {"Retinue-Handle": "nonsense"}, {"Retinue-Handle": shown(handle)}]
    answers = [await front.http().get("/v1/whoami", headers=each) for each in headers]
    assert {answer.status_code for answer in answers} == {401}
    assert all(_problem(answer) == _problem(answers[0]) for answer in answers)
    assert answers[0].headers["www-authenticate"].startswith("Bearer")
    assert (await front.http(good.text).get("/v1/whoami")).status_code == 200


async def test_a_scope_that_is_lacking_is_told_to_those_with_good_credentials_only(
    front: AccessStage,
) -> None:
    handle = await front.run()
    reader = front.http(front.issue("_", ["run:read"]).text)
    path = f"/v1/runs/{handle.subagent_id}"
    assert (await reader.get(path)).status_code == 200
    for run_id in (handle.subagent_id, new_run_id(3)):
        refused = await reader.post(f"/v1/runs/{run_id}/cancel", json={})
        assert (refused.status_code, _problem(refused)["code"]) == (403, "FORBIDDEN"), "no oracle for ids"
    assert (await reader.get(path)).json()["state"] == "PENDING"
    nothing = await front.http(_token(scope="openid", tenant="_")).get(path)
    assert nothing.status_code == 403


async def test_a_handle_alone_opens_its_own_run_and_nothing_else(front: AccessStage) -> None:
    handle, other = await front.run(), await front.run()
    holder = front.http(Retinue_Handle=shown(handle))
    status = await holder.get(f"/v1/runs/{handle.subagent_id}")
    assert status.json()["handle"] == handle.to_dict()
    assert (
        await holder.post(f"/v1/runs/{handle.subagent_id}/steers", json={"text": "hi"})
    ).status_code == 202
    assert (await holder.get(f"/v1/runs/{other.subagent_id}")).status_code == 401
    assert (await holder.get("/v1/runs", params={"session": "customer-42"})).status_code == 401
    launched = await holder.post("/v1/runs", json={"session_id": "s", "goal": "g", "agent": "support"})
    assert launched.status_code == 401
    assert (await holder.get("/v1/whoami")).status_code == 401


async def test_a_handle_of_another_tenant_says_which(front: AccessStage) -> None:
    handle = await front.run("acme")
    path = f"/v1/runs/{handle.subagent_id}"
    for tenant, status in (("acme", 200), ("_", 401), ("other", 401), ("a:b", 401)):
        holder = front.http(Retinue_Handle=shown(handle), Retinue_Tenant=tenant)
        assert (await holder.get(path)).status_code == status, tenant


async def test_a_handle_and_a_key_must_belong_together(front: AccessStage) -> None:
    handle, other, foreign = await front.run(), await front.run(), await front.run("acme")
    key, path = front.issue().text, f"/v1/runs/{handle.subagent_id}"
    assert (await front.http(key, Retinue_Handle=shown(handle)).get(path)).status_code == 200
    missing = _problem(await front.http(key).get(f"/v1/runs/{new_run_id(3)}"))
    for wrong in (other, foreign, {**handle.to_dict(), "depth": 1}, "nonsense"):
        refused = await front.http(key, Retinue_Handle=shown(wrong)).get(path)
        assert (refused.status_code, _problem(refused)) == (404, missing)


def _altered(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The handle with each of its fields changed, left out, and one too many."""
    changes = {
        "contract_version": 2,
        "subagent_id": new_run_id(3),
        "parent_session_id": "another",
        "correlation_id": "c",
        "created_at": fields["created_at"] + 1,
        "provider": "p",
        "model": "m",
        "role": "orchestrator",
        "depth": 1,
        "capability": fields["capability"][:-1] + ("B" if fields["capability"].endswith("A") else "A"),
    }
    assert changes.keys() == fields.keys()
    return [
        *({**fields, name: value} for name, value in changes.items()),
        *({each: fields[each] for each in fields if each != name} for name in fields),
        {**fields, "extra": 1},
        {**fields, "capability": "v1.k1."},
        {**fields, "capability": fields["capability"].replace("v1.", "v2.")},
    ]


async def test_a_handle_that_was_altered_anywhere_opens_nothing(front: AccessStage) -> None:
    handle = await front.run()
    path = f"/v1/runs/{handle.subagent_id}"
    for fields in _altered(handle.to_dict()):
        target = f"/v1/runs/{fields['subagent_id']}" if "subagent_id" in fields else path
        refused = await front.http(Retinue_Handle=shown(fields)).get(target)
        assert refused.status_code == 401, fields
    for text in ("", "=", "é".encode().decode("latin-1"), "a" * 9_000, shown([]), shown("x"), shown(None)):
        refused = await front.http().get(path, headers={"Retinue-Handle": text.encode("latin-1")})
        assert refused.status_code == 401, text


async def test_an_unknown_a_foreign_an_expired_and_a_malformed_id_are_answered_alike(
    front: AccessStage, valkey_server: PrivateServer
) -> None:
    client = front.http(front.issue().text)
    foreign, expired = await front.run("acme"), await front.run()
    valkey_server.client().delete(keys.record("_", expired.subagent_id))
    ids = [
        new_run_id(3),
        foreign.subagent_id,
        expired.subagent_id,
        "nonsense",
        "sa-p99-" + "a" * 26,
        "x" * 500,
    ]
    answers = [await client.get(f"/v1/runs/{run_id}") for run_id in ids]
    assert {answer.status_code for answer in answers} == {404}
    assert all(_problem(answer) == _problem(answers[0]) for answer in answers)
    assert _problem(answers[0])["code"] == "UNKNOWN_HANDLE"
    holder = front.http(Retinue_Handle=shown(expired))
    assert (await holder.get(f"/v1/runs/{expired.subagent_id}")).status_code == 404


async def test_a_revoked_key_is_refused_by_the_next_request(front: AccessStage) -> None:
    issued = front.issue()
    client = front.http(issued.text)
    assert (await client.get("/v1/whoami")).status_code == 200
    front.worker.store.run(revoke_key(issued.key.key_id))
    assert (await client.get("/v1/whoami")).status_code == 401


async def test_a_request_costs_one_round_trip_to_come_in(front: AccessStage) -> None:
    client = front.http(front.issue().text)
    await client.get("/v1/whoami")
    link = front.service.connections().link
    before = link.round_trips
    await client.get("/v1/whoami")
    assert link.round_trips == before + 1


async def test_whoever_asks_too_often_is_told_when_to_come_again(valkey_url: str) -> None:
    async with access_stage(valkey_url, http={"requests_per_minute": 3}) as front:
        handle = await front.run()
        path = f"/v1/runs/{handle.subagent_id}"
        for client in (front.http(front.issue().text), front.http(Retinue_Handle=shown(handle))):
            answers = [await client.get(path) for _ in range(4)]
            assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
            assert _problem(answers[3])["code"] == "RATE_LIMITED"
            assert 1 <= int(answers[3].headers["retry-after"]) <= 20
        assert (await front.http(front.issue().text).get(path)).status_code == 200, "each on its own"


async def test_tokens_of_one_subject_share_their_requests_and_those_of_others_do_not(valkey_url: str) -> None:
    async with access_stage(valkey_url, http={"requests_per_minute": 1, "jwt": JWT}) as front:
        tokens = [_token(), _token(scope="admin run:read"), _token(tenant="other"), _token(sub="bob")]
        statuses = [(await front.http(token).get("/v1/whoami")).status_code for token in tokens]
        assert statuses == [200, 429, 200, 200]


async def test_a_store_that_is_away_is_said_so_and_lets_nobody_in(valkey_server: PrivateServer) -> None:
    with FaultProxy(valkey_server.port) as proxy:
        async with access_stage(proxy.url) as front:
            client = front.http(front.issue().text)
            assert (await client.get("/v1/whoami")).status_code == 200
            proxy.refuse()
            proxy.reset_connections()
            answer = await client.get("/v1/whoami")
    assert (answer.status_code, _problem(answer)["code"]) == (503, "STORE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_full_store_keeps_nobody_out_who_may_come_in_and_keys_can_be_revoked(
    front: AccessStage, valkey_server: PrivateServer
) -> None:
    issued, handle = front.issue(), await front.run()
    client, path = front.http(issued.text), f"/v1/runs/{handle.subagent_id}"
    assert (await client.get(path)).status_code == 200
    with valkey_server.client() as store:
        store.config_set("maxmemory", 1)
        try:
            assert (await client.get(path)).status_code == 200
            assert (await client.post(f"{path}/cancel", json={})).json()["accepted"]
            launched = await client.post(
                "/v1/runs", json={"session_id": "s", "agent": "support", "goal": "g"}
            )
            assert (launched.status_code, _problem(launched)["code"]) == (503, "STORE_UNAVAILABLE")
            front.worker.store.run(revoke_key(issued.key.key_id))
            assert (await client.get(path)).status_code == 401
        finally:
            store.config_set("maxmemory", 0)


async def test_no_secret_reaches_the_log_or_an_answer(
    front: AccessStage, caplog: pytest.LogCaptureFixture
) -> None:
    issued, handle = front.issue(), await front.run()
    secret, capability = issued.text.rpartition("_")[2], handle.capability.rpartition(".")[2]
    with caplog.at_level(logging.DEBUG):
        answers = [
            await front.http(issued.text).get("/v1/whoami"),
            await front.http(issued.text + "x").get("/v1/whoami"),
            await front.http(Retinue_Handle=shown({**handle.to_dict(), "depth": 1})).get("/v1/whoami"),
            await front.http(_token(exp=1)).get("/v1/whoami"),
        ]
    text = caplog.text + "".join(answer.text + str(answer.headers) for answer in answers)
    assert issued.key.key_id in caplog.text, "who asked is logged"
    for hidden in (secret, capability, _token(exp=1).split(".")[1][:20]):
        assert hidden not in text
