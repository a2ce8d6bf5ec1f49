"""What the facade over HTTP does beyond the contract: lost answers, refusals, keys, and handles alone."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.integration.client.conftest import OVER_HTTP, Facades
from tests.integration.client.patience import wait_until
from tests.integration.client.store_worker import StoreWorker
from tests.integration.client.test_deciding import REFUND

from retinue.client import (
    ErrorCode,
    SubagentHandle,
    SubagentLifecycle,
    SubagentLifecycleError,
    SubagentPurgeResult,
    SubagentState,
)
from retinue.store.operations.api_keys import Scope
from retinue.testing.proxy import FaultProxy, Loss

NOWHERE = "http://127.0.0.1:1"
SOON_S = 30.0
"""What is over by then, also on a busy machine, did not wait for a longer time-out, or for ever."""


def refusal(call: Any, *args: object, **keywords: object) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        call(*args, **keywords)
    return caught.value


@pytest.fixture(params=OVER_HTTP)
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def fresh_store_url(valkey_url: str) -> str:
    return valkey_url


@pytest.fixture
def way(facades: Facades) -> Iterator[FaultProxy]:
    """To the API, with faults."""
    with FaultProxy(facades.api().port) as made:
        yield made


def by_way(facades: Facades, way: FaultProxy) -> Any:
    url = f"http://127.0.0.1:{way.port}"
    return facades.keep(facades.kind("customer-42", url=url, api_key=facades.key()))


def launched(worker: StoreWorker) -> int:
    return worker.link.execute("LLEN", "retinue\x06\x166")


class TestLostAnswers:
    """A connection that is cut before or after the API has done what it was asked for."""

    @pytest.fixture(params=[Loss.REQUEST, Loss.REPLY])
    def loss(self, request: pytest.FixtureRequest) -> Loss:
        return request.param

    def test_a_launch_is_made_once(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        way.lose(loss, to=b"POST /v1/runs ", count=2)
        handle = lifecycle.launch(agent="support", goal="x")
        assert way.losses_left == 0
        assert [each.handle for each in lifecycle.list()] == [handle]
        way.lose(loss, to=b"POST /v1/runs/batch", count=2)
        handles = lifecycle.launch_many([{"agent": "support", "goal": "y"}] * 3)
        assert {each.handle for each in lifecycle.list()} == {handle, *handles}
        assert launched(worker) == 4

    def test_a_turn_is_begun_once(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        first = lifecycle.launch(agent="support", goal="one")
        worker.complete(first)
        way.lose(loss, to=b"/continue", count=2)
        second = lifecycle.continue_run(first, "two")
        assert lifecycle.status(second).continues == first.subagent_id
        assert len(lifecycle.list()) == 2

    def test_a_message_is_queued_once(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        handle = lifecycle.launch(agent="support", goal="x")
        way.lose(loss, to=b"/steers", count=2)
        assert lifecycle.steer(handle, "from Germany")
        fence = worker.claim(handle)
        assert worker.boundary(handle, fence).steers == ["from Germany"]

    def test_a_decision_is_accepted(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        handle = lifecycle.launch(agent="support", goal="x")
        worker.ask(handle, REFUND)
        [asked] = lifecycle.pending(handle)
        way.lose(loss, to=b"/approve", count=2)
        assert lifecycle.approve(handle, asked.request_id).accepted
        assert not lifecycle.approve(handle, asked.request_id).accepted

    def test_a_cancel_and_a_purge_are_answered(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        handle = lifecycle.launch(agent="support", goal="x")
        worker.claim(handle)
        way.lose(loss, to=b"/cancel", count=2)
        assert lifecycle.cancel(handle).accepted
        other = lifecycle.launch(agent="support", goal="x")
        worker.complete(other)
        way.lose(loss, to=b"DELETE", count=2)
        assert lifecycle.purge(other).purged
        assert lifecycle.purge(other) == SubagentPurgeResult.unknown()

    def test_a_dead_letter_is_replayed_once(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        lost = lifecycle.launch(agent="support", goal="x")
        worker.give_up(lost)
        before = launched(worker)
        way.lose(loss, to=b"/replay", count=1)
        assert lifecycle.status(lifecycle.replay(lost)).replays == lost.subagent_id
        assert launched(worker) == before + 1

    def test_reads_and_waits_are_repeated(
        self, facades: Facades, worker: StoreWorker, way: FaultProxy, loss: Loss
    ) -> None:
        lifecycle = by_way(facades, way)
        handle = lifecycle.launch(agent="support", goal="x")
        worker.complete(handle)
        for call in (lifecycle.status, lifecycle.wait, lifecycle.result, lifecycle.tree):
            way.lose(loss, to=b"GET /v1", count=2)
            assert call(handle)
        way.lose(loss, to=b"GET /v1", count=2)
        assert list(lifecycle.events(handle, follow=True))[-1].type == "run.finished"


def test_a_launch_whose_outcome_stays_unknown_says_so_and_was_made_once(
    facades: Facades, worker: StoreWorker, way: FaultProxy
) -> None:
    lifecycle = by_way(facades, way)
    way.lose(Loss.REPLY, to=b"POST /v1/runs", count=1_000)
    error = refusal(lifecycle.launch, agent="support", goal="x", correlation_id="once")
    assert (error.code, error.handle) == (ErrorCode.LAUNCH_UNKNOWN, None)
    way.heal()
    again = lifecycle.launch(agent="support", goal="x", correlation_id="once", on_duplicate="return")
    assert [each.handle for each in lifecycle.list()] == [again]
    assert launched(worker) == 1


def test_an_api_that_is_not_there_is_named_at_once_and_nothing_was_sent(facades: Facades) -> None:
    lifecycle = facades.keep(facades.kind("customer-42", url=NOWHERE, api_key="k"))
    began = time.monotonic()
    for call in (lambda: lifecycle.launch(agent="support", goal="x"), lambda: lifecycle.list()):
        error = refusal(call)
        assert error.code is ErrorCode.STORE_UNAVAILABLE
        assert NOWHERE in str(error)
    assert time.monotonic() - began < SOON_S


def test_an_api_that_is_silent_is_given_up(
    facades: Facades, worker: StoreWorker, way: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = by_way(facades, way)
    handle = lifecycle.launch(agent="support", goal="x")
    monkeypatch.setattr("retinue.client.over_http.exchange.REPLY_S", 0.5)
    way.black_hole(new_too=True)
    began = time.monotonic()
    assert refusal(lifecycle.status, handle).code is ErrorCode.STORE_UNAVAILABLE
    assert refusal(lifecycle.wait, handle).code is ErrorCode.STORE_UNAVAILABLE
    assert refusal(lambda: list(lifecycle.launch(agent="support", goal="y"))).code in (
        ErrorCode.STORE_UNAVAILABLE,
        ErrorCode.LAUNCH_UNKNOWN,
    )
    assert time.monotonic() - began < SOON_S


def test_a_handle_that_is_malformed_or_anothers_is_unknown_without_the_api(
    facades: Facades, worker: StoreWorker
) -> None:
    genuine = facades().launch(agent="support", goal="x")
    offline = facades.keep(facades.kind("another", url=NOWHERE, api_key="k"))
    for bad in (None, 42, {}, "x", {**genuine.to_dict(), "more": 1}, genuine):
        assert offline.status(bad).state is SubagentState.UNKNOWN
        assert offline.wait(bad).completed
        assert not offline.cancel(bad).accepted
        assert offline.wait_any([bad])[0].completed
        assert offline.results([bad])[0].error_classification == "UNKNOWN_HANDLE"
        assert not offline.approve(bad, "x").accepted
        assert not offline.purge(bad).purged


def test_the_answers_are_those_of_the_direct_facade(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    direct = facades.keep(SubagentLifecycle("customer-42", settings=facades.settings()), direct=True)
    root = lifecycle.launch(
        agent="support", goal="x", budget={"tool_calls": 9}, metadata={"a": [1, 2.5, "ü\u2028"]}
    )
    fence = worker.claim(root)
    worker.record(root, fence, worker.boundary(root, fence), tools=["search_handbook"])
    worker.tool_result(root, fence, 1, "search_handbook")
    assert lifecycle.tree(root) == direct.tree(root)
    assert lifecycle.handle(root.subagent_id) == root == direct.handle(root.subagent_id)
    assert [lifecycle.handle(each) for each in ("x", None, 5, "sa-p07-" + "a" * 26)] == [None] * 4
    worker.finish(root, fence, summary="long \ud800 \u2028 " * 5_000, payload={"n": 1.0, "deep": [None]})
    for name in ("status", "result", "wait", "reconnect", "full_text", "tree", "pending"):
        assert getattr(lifecycle, name)(root) == getattr(direct, name)(root), name
    assert lifecycle.list() == direct.list()
    assert (
        list(lifecycle.events(root)) == list(direct.events(root)) == list(lifecycle.events(root, follow=True))
    )
    lost = lifecycle.launch(agent="support", goal="x")
    worker.give_up(lost)
    assert lifecycle.dead_letters() == direct.dead_letters()
    assert lifecycle.dead_letter(lost).request == direct.dead_letter(lost).request


def test_a_list_and_a_log_of_several_pages_are_whole(
    facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.client.over_http.lists.PAGE", 3)
    monkeypatch.setattr("retinue.client.over_http.run_calls.EVENTS_A_READ", 2)
    lifecycle = facades()
    handles = lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 10)
    assert {each.handle for each in lifecycle.list()} == set(handles)
    assert len(lifecycle.list(limit=4)) == 4
    assert [each.handle for each in lifecycle.list()][2:9] == [
        each.handle for each in lifecycle.list(offset=2, limit=7)
    ]
    worker.complete(handles[0])
    assert [event.sequence for event in lifecycle.events(handles[0])] == [1, 2, 3, 4, 5]
    for handle in handles[1:8]:
        worker.give_up(handle)
    assert {letter.run_id for letter in lifecycle.dead_letters()} == {
        handle.subagent_id for handle in handles[1:8]
    }
    assert len(lifecycle.dead_letters(limit=5)) == 5


def test_a_wait_for_any_of_more_runs_than_one_call_names(
    facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.client.over_http.waiting.RUNS_A_CALL", 2)
    lifecycle = facades()
    handles = lifecycle.launch_many([{"agent": "support", "goal": "x"}] * 5)
    assert all(end.timed_out for end in lifecycle.wait_any(handles, timeout_seconds=0))
    timer = threading.Timer(0.3, lambda: worker.complete(handles[1]))
    timer.start()
    ends = lifecycle.wait_any(handles, timeout_seconds=60)
    timer.join()
    assert [end.completed for end in ends] == [False, True, False, False, False]
    assert not any(end.timed_out for end in ends)
    for handle in (handles[0], *handles[2:]):
        worker.complete(handle)
    assert all(end.completed for end in lifecycle.wait_all(handles, timeout_seconds=60))
    assert [result.handle for result in lifecycle.results(handles)] == list(handles)


def test_a_wait_longer_than_one_poll_goes_on(
    facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.client.over_http.waiting.POLL_S", 0.1)
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    timer = threading.Timer(0.7, lambda: worker.complete(handle))
    timer.start()
    assert lifecycle.wait(handle, timeout_seconds=60).completed
    timer.join()


class TestKeys:
    """What a key is good for."""

    def test_a_wrong_key_or_none_is_named_as_such(
        self, facades: Facades, worker: StoreWorker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        url = facades.api().url
        genuine = facades().launch(agent="support", goal="x")
        wrong = facades.keep(facades.kind("customer-42", url=url, api_key="rtn_wrong_key"))
        for call in (
            lambda: wrong.launch(agent="support", goal="x"),
            wrong.list,
            lambda: wrong.status(genuine),
        ):
            error = refusal(call)
            assert error.code is ErrorCode.UNAUTHENTICATED
            assert "rtn_wrong_key" not in f"{error!r} {error} {wrong!r}"
        none = facades.keep(facades.kind("customer-42", url=url))
        assert refusal(none.launch, agent="support", goal="x").code is ErrorCode.UNAUTHENTICATED
        monkeypatch.setenv("RETINUE_API_KEY", facades.key())
        assert facades.keep(facades.kind("customer-42", url=url)).status(genuine).agent == "support"

    def test_a_key_that_may_only_read_is_told_what_it_lacks(
        self, facades: Facades, worker: StoreWorker
    ) -> None:
        genuine = facades().launch(agent="support", goal="x")
        reader = facades.keep(
            facades.kind("customer-42", url=facades.api().url, api_key=facades.key(scopes=[Scope.READ]))
        )
        assert reader.status(genuine).state is SubagentState.PENDING
        error = refusal(reader.cancel, genuine)
        assert error.code is ErrorCode.FORBIDDEN
        assert "run:write" in str(error)
        assert refusal(reader.dead_letters).code is ErrorCode.FORBIDDEN

    def test_a_key_of_another_tenant_than_was_named_opens_nothing(
        self, facades: Facades, worker: StoreWorker
    ) -> None:
        url = facades.api().url
        mistaken = facades.keep(facades.kind("s", tenant="acme", url=url, api_key=facades.key()))
        assert refusal(mistaken.launch, agent="support", goal="x").code is ErrorCode.FORBIDDEN
        unnamed = facades.keep(facades.kind("s", url=url, api_key=facades.key("acme")))
        assert unnamed.list() == ()

    def test_the_key_is_not_shown_or_logged(
        self, facades: Facades, worker: StoreWorker, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        lifecycle = facades()
        key = facades.key()
        handle = lifecycle.launch(agent="support", goal="a secret goal")
        list(lifecycle.events(handle))
        facade = getattr(lifecycle, "facade", lifecycle)
        shown = f"{facade!r} {vars(facade)!r} {facade._api.address!r} {facade._api.__dict__!r}"
        for secret in (key, handle.capability, "secret goal"):
            assert secret not in shown
            assert secret not in caplog.text


class TestHandlesAlone:
    """No key: each handle opens its own run."""

    @pytest.fixture
    def alone(self, facades: Facades) -> Any:
        return facades.keep(facades.kind("customer-42", url=facades.api().url))

    def test_they_watch_steer_and_stop_their_runs(
        self, facades: Facades, alone: Any, worker: StoreWorker
    ) -> None:
        first, second = facades().launch_many([{"agent": "support", "goal": "x"}] * 2)
        assert alone.status(first).state is SubagentState.PENDING
        assert alone.steer(first, "hello")
        assert [end.timed_out for end in alone.wait_any([first, second], timeout_seconds=0)] == [True, True]
        worker.complete(first)
        assert [event.type for event in alone.events(first, follow=True)][-1] == "run.finished"
        assert alone.cancel(second).accepted
        ends = alone.wait_all([first, second, {}], timeout_seconds=60)
        assert [end.state for end in ends] == ["SUCCEEDED", "CANCELLED", "UNKNOWN"]
        assert [result.ready for result in alone.results([first, second])] == [True, True]
        assert alone.continue_run(first, "more").parent_session_id == "customer-42"

    def test_a_forged_one_is_unknown(self, facades: Facades, alone: Any, worker: StoreWorker) -> None:
        genuine: SubagentHandle = facades().launch(agent="support", goal="x")
        forged = {**genuine.to_dict(), "depth": 3}
        assert alone.status(forged).state is SubagentState.UNKNOWN
        assert alone.result(forged).error_classification == "UNKNOWN_HANDLE"
        assert not alone.cancel(forged).accepted
        assert list(alone.events(forged)) == list(alone.events(forged, follow=True)) == []

    def test_they_launch_and_list_nothing(self, alone: Any) -> None:
        for call in (lambda: alone.launch(agent="support", goal="x"), alone.list):
            assert refusal(call).code is ErrorCode.UNAUTHENTICATED


@contextmanager
def answering(
    status: int, body: str, *, context: ssl.SSLContext | None = None, **headers: str
) -> Iterator[tuple[str, list[str]]]:
    """A server that is no API: its address, and the paths that it was asked for."""
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


def self_signed(directory: Path) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate of its own making."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    kept = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(pem)
    (directory / "server.pem").write_bytes(kept)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    return context


class TestOtherServers:
    """Something else than the API answers."""

    def ask(self, facades: Facades, url: str) -> SubagentLifecycleError:
        return refusal(facades.keep(facades.kind("customer-42", url=url, api_key="k")).list)

    def test_one_whose_certificate_nobody_vouches_for_is_not_shown_the_key(
        self, facades: Facades, tmp_path: Path
    ) -> None:
        with answering(200, "{}", context=self_signed(tmp_path)) as (url, asked):
            error = self.ask(facades, url.replace("http://", "https://"))
            assert error.code is ErrorCode.STORE_UNAVAILABLE
            assert "certificate" in str(error).lower()
            assert asked == []

    def test_a_redirect_is_named_and_not_followed(self, facades: Facades) -> None:
        with answering(302, "", Location="/elsewhere") as (url, asked):
            error = self.ask(facades, url)
            assert (error.field, len(asked)) == ("url", 1)
            assert "redirect" in str(error)

    @pytest.mark.parametrize(
        ("status", "body"),
        [(200, "<html>"), (200, "[]"), (200, '{"runs": [1]}'), (404, "no"), (404, '{"detail": "Not Found"}')],
    )
    def test_an_answer_of_another_kind_is_named(self, facades: Facades, status: int, body: str) -> None:
        with answering(status, body) as (url, _):
            assert self.ask(facades, url).field == "url"

    def test_a_route_that_the_api_does_not_have_is_no_unknown_run(
        self, facades: Facades, worker: StoreWorker
    ) -> None:
        handle = facades().launch(agent="support", goal="x")
        problem = json.dumps({"code": "NOT_FOUND", "detail": "no such route", "status": 404})
        with answering(404, problem, Content_Type="application/problem+json") as (url, _):
            lifecycle = facades.keep(facades.kind("customer-42", url=url, api_key="k"))
            assert refusal(lifecycle.status, handle).code is ErrorCode.INVALID_REQUEST

    def test_a_gateway_without_an_api_behind_it_is_asked_again_and_then_named(self, facades: Facades) -> None:
        with answering(502, "<html>bad gateway</html>") as (url, asked):
            error = self.ask(facades, url)
            assert error.code is ErrorCode.STORE_UNAVAILABLE
            assert url in str(error)
            assert len(asked) > 1

    def test_a_key_that_asks_too_often_waits_if_that_is_soon(self, facades: Facades) -> None:
        problem = json.dumps({"code": "RATE_LIMITED", "detail": "too many", "status": 429})
        with answering(429, problem, Retry_After="1") as (url, asked):
            assert self.ask(facades, url).code is ErrorCode.RATE_LIMITED
            assert len(asked) > 1
        with answering(429, problem, Retry_After="600") as (url, asked):
            assert self.ask(facades, url).code is ErrorCode.RATE_LIMITED
            assert len(asked) == 1


def test_a_client_that_closes_makes_new_connections_at_its_next_call(
    facades: Facades, worker: StoreWorker
) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    lifecycle.close()
    assert lifecycle.status(handle).handle == handle


def test_a_follower_that_leaves_ends_its_stream(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    events = lifecycle.events(handle, follow=True)
    assert next(events).type == "run.created"
    del events
    assert lifecycle.status(handle).state is SubagentState.PENDING


@pytest.mark.parametrize("colour", ["http"], indirect=True)
async def test_a_synchronous_call_on_a_running_loop_is_refused(facades: Facades) -> None:
    lifecycle = facades()
    for call in (lifecycle.list, lambda: lifecycle.status({}), lambda: next(lifecycle.events({}))):
        assert refusal(call).code is ErrorCode.WRONG_LOOP


@pytest.mark.parametrize("colour", ["async-http"], indirect=True)
def test_a_facade_serves_one_event_loop_after_the_other(facades: Facades, worker: StoreWorker) -> None:
    way = {"url": facades.api().url, "api_key": facades.key()}

    async def once() -> SubagentHandle:
        async with facades.kind("customer-42", **way) as lifecycle:
            return await lifecycle.launch(agent="support", goal="x")

    assert asyncio.run(once()) != asyncio.run(once())


@pytest.mark.parametrize("colour", ["http"], indirect=True)
def test_many_threads_wait_at_once(facades: Facades, worker: StoreWorker) -> None:
    lifecycle = facades()
    handle = lifecycle.launch(agent="support", goal="x")
    ends: list[Any] = []
    threads = [threading.Thread(target=lambda: ends.append(lifecycle.wait(handle, 60))) for _ in range(40)]
    for thread in threads:
        thread.start()
    worker.complete(handle)
    wait_until(lambda: len(ends) == 40, within_s=60)
    assert {end.state for end in ends} == {SubagentState.SUCCEEDED}
    for thread in threads:
        thread.join()
