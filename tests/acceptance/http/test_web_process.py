"""`retinue web` as a process: what it prints, whom it lets in, how it ends, what callers cannot do to it."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.acceptance.http.http_rig import ApiProcess, HttpRig
from tests.acceptance.run_rig import DEADLINE_S

from retinue.broker.catalogue import advertise_command

JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def known(web: HttpRig) -> None:
    """An agent that a worker once advertised, and that nobody runs."""
    entries = {"agents": [{"name": "echo"}], "toolsets": {}}
    web.rig.store.execute_command(*advertise_command(entries, [], time.time()))


def launch(http: httpx2.Client) -> str:
    """A run that nobody works on."""
    made = http.post("/v1/runs", json={"session_id": "s", "agent": "echo", "goal": "Wait."})
    assert made.status_code == 201, made.text
    return made.json()["run_id"]


def say(api: ApiProcess, text: str) -> socket.socket:
    """A connection on which something was said, and that stays open."""
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=DEADLINE_S)
    connection.sendall(text.replace("HOST", f"Host: 127.0.0.1:{api.port}\r\n").encode())
    return connection


def hear(connection: socket.socket) -> str:
    """All that comes until the other end closes."""
    heard = b""
    while part := connection.recv(65_536):
        heard += part
    return heard.decode()


@pytest.fixture(scope="module")
def hasty(web: HttpRig) -> ApiProcess:
    """An API process that waits a second for a request, with small limits."""
    return web.api(http__request_timeout_seconds=1.0, http__max_body_bytes=2_048)


def test_it_names_no_server_and_prints_one_line_with_its_address(web: HttpRig) -> None:
    api = web.apis[0]

    answer = web.http("").get("/v1/nowhere")

    assert "server" not in answer.headers
    lines = [line for line in api.process.log_text().splitlines() if line.startswith("listening on ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"listening on {api.url}")


def test_a_request_is_logged_with_its_id_and_key_and_without_its_query(web: HttpRig) -> None:
    key = web.key()
    key_id = key.split("_")[1]

    web.http(key).get("/v1/runs?session=secret-session", headers={"X-Request-Id": "req-17"})

    line = web.apis[0].process.wait_for_log(r"^.*request=req-17$")[0]
    assert re.search(rf"http\.request method=GET path=/v1/runs status=200 ms=\d+ key={key_id} request=", line)
    log = web.apis[0].process.log_text()
    assert "secret-session" not in log
    assert key not in log


def test_a_body_that_announces_too_much_is_refused_before_it_is_sent(hasty: ApiProcess) -> None:
    head = f"POST /v1/runs HTTP/1.1\r\nHOST{JSON}Content-Length: 2049\r\nExpect: 100-continue\r\n\r\n"
    with closing(say(hasty, head)) as connection:
        heard = hear(connection)

    assert heard.startswith("HTTP/1.1 413 ")
    assert "100 Continue" not in heard
    assert '"code":"BODY_TOO_LARGE"' in heard


def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long(hasty: ApiProcess) -> None:
    head = f"POST /v1/runs HTTP/1.1\r\nHOST{JSON}Transfer-Encoding: chunked\r\n\r\n"
    with closing(say(hasty, head)) as connection:
        connection.sendall(b"c00\r\n" + b"x" * 0xC00 + b"\r\n")  # and no end of it
        heard = hear(connection)

    assert heard.startswith("HTTP/1.1 413 ")


def test_a_client_that_sends_all_before_it_listens_still_gets_its_refusal(
    web: HttpRig, hasty: ApiProcess
) -> None:
    answer = web.http("", api=hasty).post(
        "/v1/runs", content=b"x" * 4_000_000, headers={"Content-Type": "application/json"}
    )

    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_a_body_that_does_not_come_is_given_up(hasty: ApiProcess) -> None:
    head = f"POST /v1/runs HTTP/1.1\r\nHOST{JSON}Content-Length: 100\r\n\r\n"
    with closing(say(hasty, head + "{")) as connection:
        heard = hear(connection)

    assert heard.startswith("HTTP/1.1 408 ")
    assert '"code":"REQUEST_TIMEOUT"' in heard


@pytest.mark.parametrize("said", ["", "GET /v1/runs HTTP/1.1\r\nAuthoriz"])
def test_a_connection_that_asks_for_nothing_is_closed(hasty: ApiProcess, said: str) -> None:
    with closing(say(hasty, said)) as connection:
        assert hear(connection) == ""


def test_a_head_that_drips_is_not_waited_for_longer(hasty: ApiProcess) -> None:
    with closing(say(hasty, "GET /v1/runs HTTP/1.1\r\nX-Slow: ")) as connection:
        connection.settimeout(0.1)
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                connection.sendall(b"x")
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    raise AssertionError("the connection is still open")


def test_a_foreign_host_name_is_refused(web: HttpRig) -> None:
    answer = web.http().get("/v1/runs", headers={"Host": "evil.example"})

    assert (answer.status_code, answer.json()["code"]) == (421, "HOST_NOT_ALLOWED")


@pytest.mark.usefixtures("known")
def test_sigterm_answers_open_waits_and_streams_at_once_and_ends_well(web: HttpRig) -> None:
    api = web.api(http__stop_seconds=600)
    http = web.http(api=api)
    run_id = launch(http)
    body = json.dumps({"runs": [run_id], "timeout_seconds": 60})
    head = f"HOSTAuthorization: {http.headers['Authorization']}\r\n"
    with (
        closing(say(api, f"GET /v1/runs/{run_id}/wait?timeout_seconds=60 HTTP/1.1\r\n{head}\r\n")) as one,
        closing(say(api, f"GET /v1/runs/{run_id}/events/stream HTTP/1.1\r\n{head}\r\n")) as stream,
        closing(
            say(
                api,
                f"POST /v1/wait HTTP/1.1\r\n{head}{JSON}Content-Length: {len(body)}\r\n\r\n{body}",
            )
        ) as several,
    ):
        # Connections are taken in turn: when this is answered, the server has heard all three.
        http.get("/healthz")
        web.rig.wait_until(lambda: is_watched(web), "a subscription")

        api.process.terminate()

        waited, streamed, many = hear(one), hear(stream), hear(several)
        assert api.process.wait(DEADLINE_S) == 0
    assert waited.startswith("HTTP/1.1 200 ")
    assert '"timed_out":true' in waited
    assert streamed.startswith("HTTP/1.1 200 ")
    assert many.startswith("HTTP/1.1 200 ")
    assert '"completed":false' in many
    assert "Traceback" not in api.process.log_text()


def is_watched(web: HttpRig) -> bool:
    """Whether somebody waits for news of a run."""
    clients: list[dict[str, Any]] = web.rig.store.client_list(_type="pubsub")
    return any(int(client["sub"]) + int(client["psub"]) + int(client.get("ssub", 0)) for client in clients)


def test_a_request_that_will_not_end_is_cut_off_after_its_time(web: HttpRig) -> None:
    api = web.api(http__stop_seconds=1)
    head = f"POST /v1/runs HTTP/1.1\r\nHOST{JSON}Content-Length: 100\r\n\r\n"
    with closing(say(api, head + "{")) as connection:
        web.http("", api=api).get("/healthz")

        api.process.signal(signal.SIGINT)

        assert api.process.wait(DEADLINE_S) == 0
        heard = hear(connection)
    assert heard.startswith("HTTP/1.1 503 ")
    assert '"code":"STOPPING"' in heard
    assert "Traceback" not in api.process.log_text()


@pytest.fixture
def lone(web: HttpRig, tmp_path: Path) -> Iterator[HttpRig]:
    """Starts API processes that have a state directory of their own, over an empty store."""
    web.rig.server.flush()
    with ExitStack() as stack:
        yield HttpRig(web.rig, tmp_path, stack)


def test_the_first_start_prints_a_key_once_and_keeps_it_for_its_user_alone(lone: HttpRig) -> None:
    api = lone.api()
    key = api.process.wait_for_log(rf"^listening on {api.url}; open {api.url}/#key=(rtn_\S+)$")[1]
    [kept] = (api.state_directory / "retinue/keys").iterdir()

    api.restart()

    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text().strip() == key
    assert lone.http(key, api=api).get("/v1/whoami").json()["scopes"] == ["admin", "run:read", "run:write"]
    assert api.process.log_text().count(key) == 1
    assert f"listening on {api.url}; its key is in {kept}" in api.process.log_text()


def test_an_address_for_others_needs_a_key_first(lone: HttpRig) -> None:
    api = lone.api(ready=False, arguments=["--host", "0.0.0.0"])
    assert api.process.wait(DEADLINE_S) == 1
    log = api.process.log_text()
    assert "retinue: http.host: listening on 0.0.0.0 lets others in" in log
    assert "retinue keys create" in log
    assert "listening on http" not in log

    key = lone.key()
    api.start_again()

    assert lone.http(key, api=api).get("/v1/whoami").status_code == 200
    assert lone.http(key, api=api).get("/v1/whoami", headers={"Host": "api.example"}).status_code == 200


def test_an_address_that_is_taken_is_named(web: HttpRig) -> None:
    taken = web.apis[0].port
    api = web.api(ready=False, arguments=["--port", str(taken)])

    assert api.process.wait(DEADLINE_S) == 1
    assert f"cannot listen on 127.0.0.1:{taken}" in api.process.log_text()


@pytest.mark.parametrize(
    ("store_url", "code", "says"),
    [
        (None, 1, "set RETINUE_STORE_URL"),
        ("redis://127.0.0.1:1/0", 8, "127.0.0.1:1"),
    ],
)
def test_without_a_store_it_says_so(web: HttpRig, store_url: str | None, code: int, says: str) -> None:
    api = web.api(ready=False, store_url=store_url)

    assert api.process.wait(DEADLINE_S) == code
    assert says in api.process.log_text()
    assert "Traceback" not in api.process.log_text()
