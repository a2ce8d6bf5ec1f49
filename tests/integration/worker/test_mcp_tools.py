"""MCP tools against servers that the official package serves."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.worker.payslip_server import McpSite, Transport, mcp_site, payslips
from tests.integration.worker.web import site

from retinue.agents import EffectiveSpec, Grant
from retinue.agents.agentspec.remote_spec import McpServer, McpSpec, McpWish, RetrySpec
from retinue.agents.effective.effective import ToolSpec
from retinue.broker.outbound.target_guard import Resolver, TargetGuard
from retinue.broker.settings import Settings
from retinue.contract import SettingsError
from retinue.worker.network.mcp_listing import McpListingError, with_mcp_tools
from retinue.worker.network.mcp_tools import McpToolError, McpTools

HERE = {"private_hosts": ["127.0.0.1"]}
NO_RETRY = RetrySpec(max_retries=0)


async def goes_on() -> bool:
    return True


def tools(*, resolve: Resolver | None = None, remote_tools: object = HERE, **mcp: object) -> McpTools:
    settings = Settings.read(remote_tools=remote_tools, mcp=mcp)

    async def no_sleep(_seconds: float) -> None: ...

    return McpTools(settings, TargetGuard(settings.remote_tools, resolve), sleep=no_sleep)


def server_of(site: McpSite, **values: object) -> McpServer:
    return McpServer.model_validate({"name": "s", "transport": site.transport, "url": site.url, **values})


def box(server: McpServer, **values: object) -> ToolSpec:
    mcp = McpSpec.model_validate({"server": server, "is_toolbox": True, "retry": NO_RETRY, **values})
    return ToolSpec(
        name="box", api_name="box", toolset="box", description="", parameters={}, kind="mcp", mcp=mcp
    )


def spec(*offered: ToolSpec, **values: object) -> EffectiveSpec:
    return EffectiveSpec.model_validate({"agent": "a", "max_iterations": 1, "tools": offered, **values})


@pytest.fixture(scope="module", params=["sse", "streamable_http"])
def running(request: pytest.FixtureRequest):
    transport: Transport = request.param
    with mcp_site(transport) as found:
        yield found


async def test_a_toolbox_becomes_the_tools_of_its_server_and_they_answer(running: McpSite) -> None:
    servers = tools()
    completed = await with_mcp_tools(spec(box(server_of(running))), servers, go_on=goes_on)
    names = {tool.name: tool for tool in completed.tools}
    assert set(names) == {"get_payslip", "Send by mail"}
    payslip, mail = names["get_payslip"], names["Send by mail"]
    assert (payslip.toolset, payslip.read_only, mail.read_only) == ("box", True, False)
    assert mail.api_name == "Send_by_mail"
    assert set(payslip.parameters["properties"]) == {"employee", "month"}  # pyright: ignore
    assert completed.digest != spec(box(server_of(running))).digest
    assert payslip.mcp is not None
    answer = await servers.call(payslip.mcp, {"employee": "Ada", "month": 3}, go_on=goes_on)
    assert answer == "Ada got 4,200 in month 3"


async def test_a_failure_of_the_tool_is_the_server_s_text(running: McpSite) -> None:
    called = McpSpec(server=server_of(running), tool="Send by mail")
    with pytest.raises(McpToolError, match="Ada has no address"):
        await tools().call(called, {"employee": "Ada"}, go_on=goes_on)


async def test_arguments_that_the_server_does_not_take_are_its_answer(running: McpSite) -> None:
    called = McpSpec(server=server_of(running), tool="get_payslip")
    with pytest.raises(McpToolError, match="month"):
        await tools().call(called, {"employee": "Ada", "month": "x"}, go_on=goes_on)


async def test_a_filter_selects_describes_and_asks_for_confirmation(running: McpSite) -> None:
    about = {"employee": {"type": "string", "description": "Their id"}}
    wish = McpWish(name="get_payslip", description="Ours", inputs=about, requires_confirmation=True)
    (found,) = (
        await with_mcp_tools(spec(box(server_of(running), wishes=(wish,))), tools(), go_on=goes_on)
    ).tools
    assert (found.description, found.requires_confirmation) == ("Ours", True)
    assert found.parameters["properties"]["employee"]["description"] == "Their id"  # pyright: ignore


async def test_everything_that_a_document_expects_in_vain_is_listed(running: McpSite) -> None:
    wishes = (
        McpWish(name="gone"),
        McpWish(name="get_payslip", inputs={"month": {"type": "string"}, "year": {"type": "integer"}}),
    )
    with pytest.raises(McpListingError) as caught:
        await with_mcp_tools(spec(box(server_of(running), wishes=wishes)), tools(), go_on=goes_on)
    for part in ("no tool 'gone' (it has Send by mail, get_payslip)", "takes no 'month'", "takes no 'year'"):
        assert part in str(caught.value)


async def test_a_grant_holds_for_each_of_the_tools(running: McpSite) -> None:
    blocked = Grant(blocked_tools=("Send by mail",))
    completed = await with_mcp_tools(spec(box(server_of(running)), grant=blocked), tools(), go_on=goes_on)
    assert [tool.name for tool in completed.tools] == ["get_payslip"]


@pytest.mark.parametrize("name", ["run_agent", "get payslip", "Get-Payslip"])
async def test_a_server_cannot_take_another_tool_s_name(name: str) -> None:
    own = ToolSpec(name="get payslip", api_name="get_payslip", toolset="own", description="", parameters={})
    with mcp_site("streamable_http", payslips(extra=(name,))) as found:
        wished = box(server_of(found), wishes=(McpWish(name=name),))
        if name == "Get-Payslip":
            assert await with_mcp_tools(spec(own, wished), tools(), go_on=goes_on)
            return
        with pytest.raises(McpListingError, match=r"same name|are named"):
            await with_mcp_tools(spec(own, wished), tools(), go_on=goes_on)


async def test_headers_of_the_settings_arrive_and_stay_out_of_the_log(
    running: McpSite, caplog: pytest.LogCaptureFixture
) -> None:
    running.headers.clear()
    caplog.set_level(logging.INFO)
    secret = {"s": {"headers": {"Authorization": "Bearer hunter22"}}}
    server = server_of(running, headers={"X-Plain": "p"}, needs_headers=True)
    assert len(await tools(servers=secret).offered(server, NO_RETRY, go_on=goes_on)) == 2
    assert all(sent["authorization"] == "Bearer hunter22" for sent in running.headers)
    assert all(sent["x-plain"] == "p" for sent in running.headers)
    assert "hunter22" not in caplog.text
    with pytest.raises(SettingsError, match=r'mcp\.servers\."s"\.headers'):
        await tools().offered(server, NO_RETRY, go_on=goes_on)


async def test_nothing_is_sent_to_where_nothing_may_be_reached(running: McpSite) -> None:
    running.headers.clear()
    with pytest.raises(McpToolError, match="private_hosts"):
        await tools(remote_tools={}).offered(server_of(running), NO_RETRY, go_on=goes_on)
    assert not running.headers


async def test_a_name_that_turns_private_between_two_connections_is_refused(running: McpSite) -> None:
    looks = 0

    async def rebinding(_host: str, _port: int) -> list[str]:
        nonlocal looks
        looks += 1
        return ["93.184.216.34"] if looks == 1 else ["127.0.0.1"]

    running.headers.clear()
    servers = tools(resolve=rebinding, remote_tools={})
    url = running.url.replace("127.0.0.1", "rebinding.example")
    with pytest.raises(McpToolError):
        await servers.offered(server_of(running, url=url), NO_RETRY, go_on=goes_on)
    assert looks == 2
    assert not running.headers


async def test_a_redirect_does_not_leave_the_server() -> None:
    async def elsewhere(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": other.url})

    with mcp_site("streamable_http") as other:
        async with site(elsewhere) as first:
            server = McpServer(name="s", transport="streamable_http", url=first.url("/mcp"))
            with pytest.raises(McpToolError):
                await tools().offered(server, NO_RETRY, go_on=goes_on)
        assert not other.headers


@pytest.mark.parametrize("transport", ["sse", "streamable_http"])
async def test_a_server_that_is_not_there_or_not_one_is_named(transport: Transport) -> None:
    async def html(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    async with site(html) as wrong:
        server = McpServer(name="s", transport=transport, url=wrong.url("/mcp"))
        with pytest.raises(McpToolError, match="MCP server 's'"):
            await tools().offered(server, NO_RETRY, go_on=goes_on)
    with pytest.raises(McpListingError, match="'s' cannot be listed"):
        await with_mcp_tools(spec(box(server)), tools(timeout_seconds=5), go_on=goes_on)


@pytest.mark.parametrize("transport", ["sse", "streamable_http"])
async def test_the_transport_s_retry_policy_gets_over_a_server_that_is_busy(transport: Transport) -> None:
    async def busy(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=503, text="busy")

    policy = RetrySpec(max_retries=2, initial_delay_s=0, max_delay_s=0)
    async with site(busy) as found:
        server = McpServer(name="s", transport=transport, url=found.url("/mcp"), retry=policy)
        with pytest.raises(McpToolError):
            await tools().offered(server, NO_RETRY, go_on=goes_on)
        assert len(found.asked) >= 3
        assert len(found.asked) % 3 == 0


async def test_a_silent_server_costs_no_more_than_the_time_limit() -> None:
    import asyncio

    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with site(silent) as found:
        server = McpServer(name="s", transport="streamable_http", url=found.url("/mcp"))
        with pytest.raises(McpToolError, match="did not answer in time"):
            await tools(timeout_seconds=0.3).offered(server, NO_RETRY, go_on=goes_on)


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)

    async with site(endless) as found:
        server = McpServer(name="s", transport="streamable_http", url=found.url("/mcp"))
        with pytest.raises(McpToolError):
            await tools(max_response_bytes=100_000, timeout_seconds=20).offered(
                server, NO_RETRY, go_on=goes_on
            )


PROGRAM = McpServer(
    name="s",
    transport="stdio",
    command=(sys.executable, str(Path(__file__).with_name("payslip_server.py"))),
)


async def test_a_program_is_started_only_with_the_operator_s_leave() -> None:
    with pytest.raises(SettingsError, match=r"mcp\.allow_stdio"):
        await tools().offered(PROGRAM, NO_RETRY, go_on=goes_on)
    distrusted = PROGRAM.model_copy(update={"by_value": True})
    with pytest.raises(SettingsError, match=r"mcp\.allow_stdio"):
        await tools(allow_stdio=True).offered(distrusted, NO_RETRY, go_on=goes_on)
    called = McpSpec(server=PROGRAM, tool="get_payslip")
    answer = await tools(allow_stdio=True).call(called, {"employee": "Ada", "month": 1}, go_on=goes_on)
    assert answer == "Ada got 4,200 in month 1"
