from __future__ import annotations

from typing import Any

import pytest
from pyagentspec.mcp import (
    MCPTool,
    MCPToolBox,
    MCPToolSpec,
    SSETransport,
    StdioTransport,
    StreamableHTTPTransport,
)
from pyagentspec.property import IntegerProperty, Property, StringProperty
from pyagentspec.retrypolicy import RetryPolicy
from pyagentspec.tools import BuiltinTool, ClientTool, RemoteTool, ServerTool

from retinue.agents.agentspec.remote_spec import McpWish, RetrySpec
from retinue.agents.agentspec.secrets import kept_secrets
from retinue.agents.agentspec.tools import convert_tools
from retinue.broker.settings import reset_settings


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("retinue.agents.agentspec.secrets._kept", {})
    reset_settings()
    yield
    reset_settings()


def remote(name: str = "Look up", **values: Any) -> RemoteTool:
    fields = {"url": "https://api.example.com/{{id}}", "http_method": "GET", **values}
    return RemoteTool(name=name, **fields)


def box(name: str = "box", **values: Any) -> MCPToolBox:
    transport = StreamableHTTPTransport(name="t", url="https://mcp.example.com/mcp")
    return MCPToolBox(name=name, **{"client_transport": transport, **values})


def problems_of(*components: Any, toolboxes: Any = ()) -> list[str]:
    problems: list[str] = []
    convert_tools(components, toolboxes, "clerk", problems)
    return problems


def test_each_kind_is_told_apart_and_keeps_its_confirmation() -> None:
    text = [StringProperty(title="q")]
    components = [
        ServerTool(name="A b", inputs=text, requires_confirmation=True),
        ClientTool(name="Ask", inputs=[IntegerProperty(title="n", default=3)]),
        remote(requires_confirmation=True),
        MCPTool(name="m", client_transport=SSETransport(name="t", url="http://h/sse"), inputs=text),
    ]
    problems: list[str] = []
    tools = convert_tools(components, [box(requires_confirmation=True)], "clerk", problems)
    assert not problems
    assert [(tool.name, tool.api_name, tool.kind, tool.requires_confirmation) for tool in tools] == [
        ("A b", "A_b", "server", True),
        ("Ask", "Ask", "client", False),
        ("Look up", "Look_up", "remote", True),
        ("m", "m", "mcp", False),
        ("box", "box", "mcp", True),
    ]
    assert tools[1].required == frozenset()
    assert tools[2].required == {"id"}


def test_a_remote_tool_keeps_its_request_and_its_retry_policy() -> None:
    policy = RetryPolicy(max_attempts=5, jitter=None)
    tool = remote(
        http_method="post",
        data={"a": "{{id}}"},
        query_params={"q": 1},
        headers={"X-N": 2},
        url_allow_list=["https://api.example.com/"],
        retry_policy=policy,
    )
    (converted,) = convert_tools([tool], [], "clerk", [])
    spec = converted.remote
    assert spec is not None
    assert (spec.method, spec.data, spec.query, spec.headers) == (
        "POST",
        {"a": "{{id}}"},
        {"q": 1},
        {"X-N": "2"},
    )
    assert spec.allow_list == ("https://api.example.com/",)
    assert spec.retry == RetrySpec(max_retries=5, jitter="none")


def test_a_toolbox_s_filter_may_hold_names_and_descriptions() -> None:
    wanted = MCPToolSpec(
        name="b", description="Ours", inputs=[StringProperty(title="x")], requires_confirmation=True
    )
    (converted,) = convert_tools([], [box(tool_filter=["a", wanted])], "clerk", [])
    assert converted.mcp is not None
    assert converted.mcp.wishes == (
        McpWish(name="a"),
        McpWish(name="b", description="Ours", inputs={"x": {"type": "string"}}, requires_confirmation=True),
    )
    (everything,) = convert_tools([], [box()], "clerk", [])
    assert everything.mcp is not None
    assert everything.mcp.wishes is None


def test_all_problems_are_listed_each_with_the_component_and_the_mend() -> None:
    odd = Property(json_schema={"title": "x", "type": "string", "pattern": "(?=a)"})
    problems = problems_of(
        BuiltinTool(name="built", tool_type="t"),
        remote("free", url="https://{{host}}/"),
        remote("method", http_method="BREW"),
        remote("user", url="https://me:hunter2@h/"),
        remote("query", url="https://h/?api_key=hunter2"),
        remote("params", query_params={"access_token": "hunter2"}),
        ClientTool(name="odd", inputs=[odd]),
        toolboxes=[box(client_transport=StdioTransport(name="t", command="rm", args=["-rf", "/"]))],
    )
    text = "\n".join(problems)
    assert len(problems) == 8
    assert "hunter2" not in text
    for part in (
        "BuiltinTool 'built' of agent 'clerk' is not supported (ServerTool, ClientTool, RemoteTool, MCPTool",
        "RemoteTool 'free' lets an argument choose the host of its URL (give it a url_allow_list",
        "RemoteTool 'method' has the method 'BREW' (use DELETE, GET",
        "the URL of RemoteTool 'user' carries a credential",
        '[remote_tools.tools."query"] url',
        "RemoteTool 'params' carries a credential in query_params (access_token)",
        "'odd' of agent 'clerk'",
        "would start 'rm' as a program on the worker (StdioTransport)",
        "[mcp] allow_stdio = true",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("components", "toolboxes", "part"),
    [
        ([ServerTool(name="a b"), remote("a_b")], [], "have the same name 'a_b'"),
        ([ServerTool(name="a"), remote("a")], [], "two tools named 'a'"),
        ([ServerTool(name="a")], [box(tool_filter=["a"])], "two tools named 'a'"),
        ([], [box("x", tool_filter=["a"]), box("y", tool_filter=["a"])], "two tools named 'a'"),
        ([], [box("x"), box("x")], "two tools named 'x'"),
        ([ClientTool(name="run agent")], [], "built-in tool 'run_agent'"),
        ([], [box(tool_filter=["send_message"])], "built-in tool 'send_message'"),
    ],
)
def test_two_tools_of_one_name_are_a_problem(components: Any, toolboxes: Any, part: str) -> None:
    assert part in "\n".join(problems_of(*components, toolboxes=toolboxes))


SECRETS = {
    "sensitive_headers": {"X-Key": "hunter22"},
    "headers": {"Authorization": "Bearer hunter22"},
}


@pytest.mark.parametrize("field", list(SECRETS))
def test_a_credential_in_a_document_is_refused_with_the_setting_to_use(field: str) -> None:
    transport = StreamableHTTPTransport(name="t", url="http://h", **{field: SECRETS[field]})  # pyright: ignore
    problems = problems_of(remote(**{field: SECRETS[field]}), toolboxes=[box(client_transport=transport)])
    text = "\n".join(problems)
    assert len(problems) == 2
    assert '[remote_tools.tools."Look up"] headers' in text
    assert '[mcp.servers."t"] headers' in text
    assert "hunter22" not in text


@pytest.mark.parametrize("field", list(SECRETS))
def test_where_the_operator_allows_it_a_credential_stays_in_memory_and_in_nothing_else(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETINUE_AGENT_SPEC__ALLOW_EMBEDDED_SECRETS", "true")
    tool = remote(**{field: SECRETS[field]})
    problems: list[str] = []
    (converted,) = convert_tools([tool], [], "clerk", problems)
    assert not problems
    assert "hunter22" not in repr(converted)
    assert converted.remote is not None
    assert "hunter22" not in converted.remote.model_dump_json()
    (name,) = SECRETS[field]
    assert kept_secrets("remote", "Look up")[name].get_secret_value() == SECRETS[field][name]
    assert "hunter22" not in repr(kept_secrets("remote", "Look up"))
    other = remote(**{field: {name: "another"}})
    assert "carries another" in "\n".join(problems_of(other))


def test_a_header_that_a_call_fills_is_no_credential() -> None:
    (converted,) = convert_tools([remote(headers={"Authorization": "Bearer {{token}}"})], [], "clerk", [])
    assert converted.remote is not None
    assert converted.remote.headers == {"Authorization": "Bearer {{token}}"}


def test_stdio_is_taken_with_the_operator_s_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETINUE_MCP__ALLOW_STDIO", "true")
    transport = StdioTransport(name="t", command="server", args=["-x"], env={"LEVEL": "1"}, cwd="/srv")
    (converted,) = convert_tools([], [box(client_transport=transport)], "clerk", [])
    assert converted.mcp is not None
    assert converted.mcp.server.command == ("server", "-x")
    assert (converted.mcp.server.env, converted.mcp.server.cwd) == ({"LEVEL": "1"}, "/srv")
