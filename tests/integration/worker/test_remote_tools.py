"""RemoteTools against real servers: what arrives there, what comes back, and where nothing goes."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.worker.web import site

from retinue.agents.agentspec.remote_spec import RemoteSpec, RetrySpec
from retinue.broker.outbound import guarded_http
from retinue.broker.outbound.target_guard import Resolver, TargetGuard
from retinue.broker.settings import Settings
from retinue.contract import SettingsError
from retinue.worker.network.remote_tools import RemoteToolError, RemoteTools

HERE = {"private_hosts": ["127.0.0.1"]}


async def goes_on() -> bool:
    return True


def tools(
    *, resolve: Resolver | None = None, sleeps: list[float] | None = None, **remote_tools: object
) -> RemoteTools:
    settings = Settings.read(remote_tools={**HERE, **remote_tools})

    async def sleep(seconds: float) -> None:
        (sleeps if sleeps is not None else []).append(seconds)

    guard = TargetGuard(settings.remote_tools, resolve)
    return RemoteTools(settings, guard, uniform=lambda _low, high: high, sleep=sleep)


def spec(url: str, **values: object) -> RemoteSpec:
    return RemoteSpec.model_validate({"name": "t", "method": "GET", "url": url, **values})


async def call(tools: RemoteTools, spec: RemoteSpec, **arguments: object) -> str:
    return await tools.call(spec, arguments, go_on=goes_on)  # pyright: ignore[reportArgumentType]


def text(body: str, **options: object) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=body, **options)  # pyright: ignore[reportArgumentType]

    return answer


async def test_method_path_query_headers_and_body_arrive_as_filled() -> None:
    async with site(text('{"ok": true}', content_type="application/json")) as server:
        answer = await call(
            tools(),
            spec(
                server.url("/a/{{id}}"),
                method="POST",
                query={"q": "{{q}}"},
                headers={"X-Note": "n {{id}}"},
                data={"v": "{{q}}"},
            ),
            id="x/y",
            q="p&q",
        )
    asked = server.asked[0]
    assert answer == '{"ok": true}'
    assert (asked.method, asked.raw_path) == ("POST", "/a/x%2Fy?q=p%26q")
    assert asked.headers["X-Note"] == "n x/y"
    assert json.loads(server.bodies[0]) == {"v": "p&q"}


async def test_the_settings_give_credentials_which_no_answer_repeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        status = 500 if "bad" in request.path else 200
        return web.Response(text=f"you sent {request.headers['Authorization']}", status=status)

    caplog.set_level(logging.DEBUG)
    async with site(echo) as server:
        caller = tools(tools={"t": {"headers": {"Authorization": "Bearer hunter22"}}})
        wanted = spec(server.url("/good"), needs_headers=True)
        assert await call(caller, wanted) == "you sent ***"
        with pytest.raises(RemoteToolError, match=r"HTTP 500 .*you sent \*\*\*"):
            await call(caller, spec(server.url("/bad")))
    assert server.asked[0].headers["Authorization"] == "Bearer hunter22"
    assert "hunter22" not in caplog.text


async def test_a_credential_that_only_the_settings_can_give_is_asked_for_by_name() -> None:
    with pytest.raises(SettingsError, match=r'remote_tools\.tools\."t"\.headers'):
        await call(tools(), spec("https://example.com", needs_headers=True))


async def test_a_document_that_came_with_a_launch_gets_no_credential_for_its_own_url() -> None:
    async with site(text("ok")) as server:
        secret = {"headers": {"X-Api-Key": "hunter22"}}
        mine = spec(server.url(), by_value=True)
        with pytest.raises(SettingsError, match=r'remote_tools\.tools\."t"\.url'):
            await call(tools(tools={"t": secret}), mine)
        assert not server.asked
        assert await call(tools(tools={"t": {**secret, "url": server.url("/theirs")}}), mine) == "ok"
    assert server.asked[0].path == "/theirs"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0"]
)
async def test_nothing_is_sent_to_this_machine_unless_the_settings_allow_it(host: str) -> None:
    async with site(text("secret")) as server:
        with pytest.raises(RemoteToolError, match=r"private_hosts|cannot be reached"):
            await call(tools(private_hosts=()), spec(server.url(host=host)))
    assert not server.asked


async def test_the_connection_goes_to_the_address_that_was_checked_even_if_the_name_changes_meanwhile() -> (
    None
):
    """DNS rebinding: the first look-up answers what is allowed, every later one what is not."""
    looks: list[str] = []

    async def rebinding(host: str, _port: int) -> list[str]:
        looks.append(host)
        return ["127.0.0.1"] if len(looks) == 1 else ["10.255.255.1"]

    async with site(text("reached")) as server:
        caller = tools(resolve=rebinding)
        wanted = spec(server.url(host="rebinding.example"))
        assert await call(caller, wanted) == "reached"
        assert server.asked[0].host == f"rebinding.example:{server.port}"
        assert looks == ["rebinding.example"]
        with pytest.raises(RemoteToolError, match=r"rebinding\.example has a private address"):
            await call(caller, wanted)
    assert len(server.asked) == 1


async def test_a_name_that_turns_private_is_refused_although_it_was_public_before() -> None:
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def resolve(_host: str, _port: int) -> list[str]:
        return next(answers)

    guard = TargetGuard(Settings.read().remote_tools, resolve)
    assert await guard.addresses("h", 80) == ["93.184.216.34"]
    async with site(text("secret")) as server:
        with pytest.raises(RemoteToolError, match="private"):
            await RemoteTools(Settings.read(), guard).call(spec(server.url(host="h")), {}, go_on=goes_on)
    assert not server.asked


async def test_another_address_of_the_host_is_tried_where_the_first_does_not_answer() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with site(text("second")) as server:
        caller = tools(resolve=resolve, private_hosts=["two.example"])
        assert await call(caller, spec(server.url(host="two.example"))) == "second"


def redirect(to: str, status: int = 302) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/end":
            return web.Response(text=f"{request.method} {await request.text()}")
        return web.Response(status=status, headers={"Location": to})

    return answer


async def test_redirects_are_followed_as_browsers_do() -> None:
    async with site(redirect("/end")) as server:
        assert await call(tools(), spec(server.url("/a"), method="POST", data="x")) == "GET "
    async with site(redirect("/end", 307)) as server:
        assert await call(tools(), spec(server.url("/a"), method="POST", data="x")) == "POST x"


@pytest.mark.parametrize("host", ["10.0.0.1", "[::1]", "169.254.169.254", "0.0.0.0"])
async def test_a_redirect_to_where_nothing_may_be_reached_is_refused(host: str) -> None:
    async with site(text("secret")) as inner, site(redirect(inner.url(host=host))) as server:
        with pytest.raises(RemoteToolError, match="private_hosts"):
            await call(tools(), spec(server.url()))
        assert len(server.asked) == 1
        assert not inner.asked


async def test_a_redirect_must_stay_within_the_document_s_list_too() -> None:
    async with site(text("elsewhere")) as other, site(redirect(other.url())) as server:
        with pytest.raises(RemoteToolError, match=r"redirects to .* not allowed"):
            await call(tools(), spec(server.url("/a"), allow_list=(server.url(),)))
        assert not other.asked


async def test_credentials_do_not_follow_a_redirect_to_another_origin() -> None:
    async with site(text("there")) as other, site(redirect(other.url())) as server:
        secret = {"headers": {"X-Api-Key": "hunter22", "Authorization": "Bearer hunter22"}}
        assert await call(tools(tools={"t": secret}), spec(server.url(), headers={"X-Plain": "p"})) == "there"
    assert server.asked[0].headers["X-Api-Key"] == "hunter22"
    assert "X-Api-Key" not in other.asked[0].headers
    assert "Authorization" not in other.asked[0].headers
    assert other.asked[0].headers["X-Plain"] == "p"


async def test_endless_redirects_end() -> None:
    async with site(redirect("/again")) as server:
        with pytest.raises(RemoteToolError, match="redirects too often"):
            await call(tools(max_redirects=2), spec(server.url()))
    assert len(server.asked) == 3


async def test_a_long_answer_is_cut_visibly() -> None:
    async with site(text("x" * 5_000)) as server:
        answer = await call(tools(max_response_bytes=2_000), spec(server.url()))
    assert answer == "x" * 2_000 + "\n[cut: the answer was longer than 2000 bytes]"


async def test_an_answer_that_unpacks_to_a_thousand_times_its_size_is_cut_as_well() -> None:
    async def bomb(_request: web.Request) -> web.StreamResponse:
        packed = gzip.compress(b"x" * 50_000_000)
        return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})

    async with site(bomb) as server:
        answer = await call(tools(max_response_bytes=2_000), spec(server.url()))
    assert len(answer) < 2_100


async def test_bytes_are_named_and_not_shown() -> None:
    async def picture(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x89PNG", content_type="image/png")

    async with site(picture) as server:
        assert await call(tools(), spec(server.url())) == "[4 bytes of image/png, which is no text]"


async def test_a_silent_server_costs_no_more_than_the_time_limit() -> None:
    asked = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    async with site(silent) as server:
        with pytest.raises(RemoteToolError, match="did not answer in time"):
            await call(tools(timeout_seconds=1.5), spec(server.url()))
        assert asked.is_set()


async def test_a_retry_policy_is_kept_to_the_letter() -> None:
    statuses = iter([503, 429, 200])

    async def flaky(_request: web.Request) -> web.StreamResponse:
        status = next(statuses)
        return web.Response(
            text=str(status), status=status, headers={"Retry-After": "3"} if status == 429 else {}
        )

    sleeps: list[float] = []
    policy = RetrySpec(max_retries=2, initial_delay_s=1, backoff_factor=2, max_delay_s=8, jitter="none")
    async with site(flaky) as server:
        assert await call(tools(sleeps=sleeps), spec(server.url(), retry=policy)) == "200"
    assert sleeps == [1.0, 3.0]


@pytest.mark.parametrize(("status", "asked"), [(503, 3), (501, 1), (404, 1), (401, 1)])
async def test_what_is_not_recoverable_is_asked_once(status: int, asked: int) -> None:
    async with site(text("no", status=status)) as server:
        with pytest.raises(RemoteToolError, match=f"HTTP {status} from {server.url('/x')}: no"):
            await call(
                tools(), spec(server.url("/x?secret=1"), retry=RetrySpec(max_retries=2, initial_delay_s=0))
            )
    assert len(server.asked) == asked


async def test_without_a_policy_nothing_is_sent_twice() -> None:
    async with site(text("no", status=503)) as server:
        with pytest.raises(RemoteToolError):
            await call(tools(), spec(server.url()))
    assert len(server.asked) == 1


async def test_a_run_that_is_to_stop_sends_nothing_more() -> None:
    async def stops() -> bool:
        return False

    async with site(text("no", status=503)) as server:
        with pytest.raises(RemoteToolError):
            await tools().call(spec(server.url(), retry=RetrySpec()), {}, go_on=stops)
    assert len(server.asked) == 1


async def test_the_operator_can_put_another_url_in_the_place_of_a_document_s() -> None:
    async with site(text("here")) as server:
        unfilled = spec("http://127.0.0.1:HOST_PORT/benefits/{{task}}")
        whole = tools(replace_urls={"http://127.0.0.1:HOST_PORT": server.url("")})
        assert await call(whole, unfilled, task="a b") == "here"
        single = tools(tools={"t": {"url": server.url("/other/{{task}}")}})
        assert await call(single, unfilled, task="c") == "here"
    assert [request.raw_path for request in server.asked] == ["/benefits/a%20b", "/other/c"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a self-signed certificate for good.example."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=x -keyout key.pem -out cert.pem"
    names = ["-addext", "subjectAltName=DNS:good.example"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


async def test_tls_is_checked_against_the_name_although_the_address_is_connected_to(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    trust = ssl.create_default_context(cafile=certificate / "cert.pem")
    monkeypatch.setattr(guarded_http, "system_trust", lambda: trust)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    async with site(text("over tls"), tls=serving) as server:
        caller = tools(resolve=resolve)
        assert await call(caller, spec(server.url(host="good.example", scheme="https"))) == "over tls"
        with pytest.raises(RemoteToolError, match="certificate that is not trusted"):
            await call(caller, spec(server.url(host="bad.example", scheme="https"), retry=RetrySpec()))
