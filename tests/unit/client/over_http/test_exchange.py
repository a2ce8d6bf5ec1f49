"""When a request is sent again, and what is said when that is no use."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from retinue.client.over_http.address import ApiAddress
from retinue.client.over_http.call import Call, Known
from retinue.client.over_http.exchange import Again, Exchange
from retinue.contract import ErrorCode, HandleKey, Keyring, SubagentLifecycleError, new_run_id

ADDRESS = ApiAddress("https://agents.example.com", "rtn_secret")
HANDLE = Keyring([HandleKey("k1", b"s" * 32)]).mint(
    "_",
    {
        "subagent_id": new_run_id(3),
        "parent_session_id": "customer-42",
        "correlation_id": None,
        "created_at": 1.0,
        "provider": None,
        "model": None,
        "role": "leaf",
        "depth": 0,
    },
)
LOST = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
NOBODY = httpx2.ConnectError("[Errno 111] Connection refused")
SILENT = httpx2.ReadTimeout("The read operation timed out")


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("retinue.client.over_http.exchange.time", made)
    return made


def read(**options: Any) -> Exchange[Any]:
    return Exchange(ADDRESS, Call(method="GET", path="/v1/runs", parse=lambda body: body["runs"], **options))


def launch() -> Exchange[Any]:
    return Exchange(
        ADDRESS,
        Call(
            method="POST",
            path="/v1/runs",
            body={"goal": "x"},
            parse=lambda body: body["run_id"],
            mutates=True,
            launches=True,
        ),
    )


def problem(status: int, code: str, **members: Any) -> httpx2.Response:
    headers = members.pop("headers", {})
    body = {"code": code, "detail": f"it is {code}", "status": status, **members}
    return httpx2.Response(status, json=body, headers=headers)


def fault(attempt: Any, *args: Any) -> SubagentLifecycleError:
    with pytest.raises(SubagentLifecycleError) as caught:
        attempt(*args)
    assert "rtn_secret" not in str(caught.value)
    return caught.value


def until_given_up(clock: Clock, attempt: Any) -> tuple[SubagentLifecycleError, float]:
    """Repeats an attempt; its error in the end, and after how long it came."""
    began = clock.now
    while True:
        try:
            again = attempt()
        except SubagentLifecycleError as error:
            return error, clock.now - began
        assert isinstance(again, Again)
        clock.now += again.seconds


@pytest.mark.parametrize("exchange", [read, launch])
@pytest.mark.parametrize("error", [NOBODY, httpx2.ConnectTimeout("")])
def test_what_never_left_is_not_sent_again(exchange: Any, error: httpx2.RequestError) -> None:
    found = fault(exchange().failed, error)
    assert found.code is ErrorCode.STORE_UNAVAILABLE
    assert "https://agents.example.com" in str(found)


@pytest.mark.parametrize(
    ("exchange", "code"), [(read, ErrorCode.STORE_UNAVAILABLE), (launch, ErrorCode.LAUNCH_UNKNOWN)]
)
def test_what_was_lost_is_asked_for_again_for_a_while(clock: Clock, exchange: Any, code: ErrorCode) -> None:
    asked = exchange()
    error, seconds = until_given_up(clock, lambda: asked.failed(LOST))
    assert error.code is code
    assert 2 < seconds <= 3
    silent = fault(exchange().failed, SILENT)
    assert silent.code is code, "what let a whole answer's time run out is not asked twice"


def test_what_was_sent_once_stays_so_although_its_repeat_finds_nobody(clock: Clock) -> None:
    asked = launch()
    asked.failed(LOST)
    error, _ = until_given_up(clock, lambda: asked.failed(NOBODY))
    assert error.code is ErrorCode.LAUNCH_UNKNOWN


def test_every_attempt_has_the_same_key_and_every_call_another() -> None:
    first, second = launch(), launch()
    keys = [each.request()["headers"]["Idempotency-Key"] for each in (first, first, second)]
    assert keys[0] == keys[1] != keys[2]
    assert "Idempotency-Key" not in read().request()["headers"]


def test_a_first_attempt_that_is_still_at_work_is_waited_for_beyond_the_time_that_another_takes_over(
    clock: Clock,
) -> None:
    asked = launch()
    busy = problem(409, "IDEMPOTENCY_IN_FLIGHT", headers={"Retry-After": "1"})
    error, seconds = until_given_up(clock, lambda: asked.answered(busy))
    assert error.code is ErrorCode.LAUNCH_UNKNOWN
    assert 6 < seconds <= 10
    assert asked.answered(httpx2.Response(201, json={"run_id": "r"})) == Known("r")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_with_nobody_behind_it_is_asked_again(clock: Clock, status: int) -> None:
    page = httpx2.Response(status, text="<html>")
    for exchange, code in ((read, ErrorCode.STORE_UNAVAILABLE), (launch, ErrorCode.LAUNCH_UNKNOWN)):
        asked = exchange()
        error, seconds = until_given_up(clock, lambda asked=asked: asked.answered(page))
        assert (error.code, seconds > 2) == (code, True)


def test_an_outage_that_the_api_itself_reports_is_final() -> None:
    for exchange in (read, launch):
        down = problem(503, "STORE_UNAVAILABLE", mend="see that the server runs")
        error = fault(exchange().answered, down)
        assert (error.code, error.message) == (ErrorCode.STORE_UNAVAILABLE, "it is STORE_UNAVAILABLE")
        assert error.mend == "see that the server runs"


def test_a_fault_of_the_api_leaves_a_launch_unknown() -> None:
    broken = problem(500, "INTERNAL_ERROR")
    assert fault(read().answered, broken).code is ErrorCode.STORE_UNAVAILABLE
    assert fault(launch().answered, broken).code is ErrorCode.LAUNCH_UNKNOWN
    unreadable = httpx2.Response(201, text="{}")
    assert fault(launch().answered, unreadable).code is ErrorCode.LAUNCH_UNKNOWN


def test_a_refusal_is_the_error_that_the_direct_facade_raises() -> None:
    members = {"field": "agent", "limit": "one of support", "mend": "name a known agent"}
    error = fault(launch().answered, problem(422, "UNKNOWN_AGENT", **members))
    assert (error.code, error.message) == (ErrorCode.UNKNOWN_AGENT, "it is UNKNOWN_AGENT")
    assert {name: getattr(error, name) for name in members} == members
    unknown = problem(503, "LAUNCH_UNKNOWN", handle=json.loads(json.dumps(HANDLE.to_dict())))
    assert fault(launch().answered, unknown).handle == HANDLE


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "MALFORMED_JSON"),
        (413, "BODY_TOO_LARGE"),
        (422, "IDEMPOTENCY_CONFLICT"),
        (404, "NOT_FOUND"),
        (418, "WHATEVER_COMES"),
    ],
)
def test_what_only_http_refuses_is_an_invalid_request(status: int, code: str) -> None:
    assert fault(launch().answered, problem(status, code)).code is ErrorCode.INVALID_REQUEST


def test_an_unknown_run_is_the_calls_own_affair() -> None:
    gone = problem(404, "UNKNOWN_HANDLE")
    assert read(unknown=lambda: "unknown").answered(gone) == Known("unknown")
    assert fault(read().answered, gone).code is ErrorCode.UNKNOWN_HANDLE
    known = read(unknown=lambda: "unknown", gone=lambda: "gone")
    assert known.answered(gone) == Known("unknown")
    known.failed(LOST)
    assert known.answered(gone) == Known("gone"), "the lost attempt may have done it"
    started = launch()
    started.failed(LOST)
    assert fault(started.answered, gone).code is ErrorCode.LAUNCH_UNKNOWN


def test_a_bad_handle_alone_is_an_unknown_run_and_a_bad_key_is_not() -> None:
    refused = problem(401, "UNAUTHENTICATED")
    call = Call(method="GET", path="/", parse=str, handle=HANDLE, unknown=lambda: "unknown")
    assert Exchange(ApiAddress("http://x", None, "_"), call).answered(refused) == Known("unknown")
    assert fault(Exchange(ADDRESS, call).answered, refused).code is ErrorCode.UNAUTHENTICATED


def test_who_asks_too_often_waits_if_that_is_soon() -> None:
    asked = read()
    soon = problem(429, "RATE_LIMITED", headers={"Retry-After": "2"})
    assert asked.answered(soon) == Again(2.0)
    late = problem(429, "RATE_LIMITED", headers={"Retry-After": "60"})
    assert fault(read().answered, late).code is ErrorCode.RATE_LIMITED
    full = problem(429, "CAPACITY_REACHED", field="max_live_children")
    assert fault(read().answered, full).code is ErrorCode.CAPACITY_REACHED


def test_what_is_sent_shows_no_secret_in_its_repr() -> None:
    call = Call(method="POST", path="/", parse=str, body={"goal": "secret"}, handle=HANDLE)
    assert "secret" not in repr(call)
    assert HANDLE.capability not in repr(call)
    assert "rtn_" not in repr(ADDRESS)
