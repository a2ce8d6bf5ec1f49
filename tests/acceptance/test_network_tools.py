"""RemoteTools and MCP toolboxes of published documents, unchanged, on a real worker."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import redis
from tests.integration.worker.payslip_server import McpSite, mcp_site, payslips

from retinue.client import ErrorClassification, SubagentState
from retinue.testing import ErrorReply, ScriptedServer
from retinue.testing.clients import LifecycleFactory
from retinue.testing.processes import ProcessFailedError
from retinue.testing.workers import WorkerFactory

_QUICK = ("--without-mingle", "--without-gossip")
_INPUTS = {"format_instructions": "Plain text.", "context": "Nothing else."}
_REST = "http://127.0.0.1:HOST_PORT"


class BenefitsService(BaseHTTPRequestHandler):
    """What the document's seven tools call."""

    asked: list[tuple[str, str, str, str]]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.asked.append((self.command, self.path, body, self.headers.get("Authorization") or ""))
        answer = json.dumps({"answered": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def benefits() -> Generator[ThreadingHTTPServer]:
    handler = type("Handler", (BenefitsService,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(30)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """The worker's directory, with the documents in it; skipped where they are not at hand."""
    root = os.environ.get("RETINUE_SHARED") or Path(__file__).parents[3] / "shared"
    folder = Path(root).resolve() / "data" / "agentspec" / "agent-spec"
    if not folder.is_dir():
        pytest.skip("no Agent Spec files: set RETINUE_SHARED")
    for name in ("howto_agent_with_remote_tools.yaml", "howto_mcp_agent.yaml"):
        shutil.copyfile(folder / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def payroll_server() -> Generator[McpSite]:
    with mcp_site("sse") as found:
        yield found


def settings_for(
    model: ScriptedServer, benefits: ThreadingHTTPServer, payroll: str, **more: object
) -> dict[str, object]:
    """What an operator sets for the documents: their URLs are made up."""
    url = {"url": model.base_url}
    secret = {"headers": {"Authorization": "Bearer hunter22"}}
    return {
        "llm_configs": {"Vllm model": url, "llm": url},
        "remote_tools": {
            "private_hosts": ["127.0.0.1"],
            "replace_urls": {_REST: f"http://127.0.0.1:{benefits.server_address[1]}"},
            "tools": {"Costs_and_Contributions_REST_API_Tool": secret},
        },
        "mcp": {"servers": {"MCP Client": {"url": payroll}}},
        **more,
    }


def test_a_published_agent_calls_its_remote_tools(
    documents: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    benefits: ThreadingHTTPServer,
    payroll_server: McpSite,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    settings = settings_for(scripted_model, benefits, payroll_server.url)
    worker = worker_process(valkey_url, agents=["network_documents"], settings=settings, arguments=_QUICK)
    script = scripted_model.script_where("advisor", lambda asked: "Benefits Assistant Agent" in asked.system)
    script.call("Benefits_Enrollment_Status_REST_API_Tool", {"task": "../mine"})
    script.call("Benefits_Enrollment_Status_REST_API_Tool", {"task": "find mine?x=1"})
    script.call("Costs_and_Contributions_REST_API_Tool", {"employee_id": "e-7"})
    script.call("Calculator_Tool", {"problem": 'two "plus" two'})
    script.call("RAG_Retrieval_Tool", {"question": "wrong name"}).then("${results}")

    result = lifecycle(valkey_url).run(
        agent="advisor", goal="What do I have?", inputs=_INPUTS, wait_seconds=30
    )

    assert result.terminal_state is SubagentState.SUCCEEDED
    asked = benefits.RequestHandlerClass.asked  # pyright: ignore
    # The calls of one turn run side by side.
    assert sorted(asked) == [
        ("GET", "/benefits/find%20mine%3Fx%3D1", "", ""),
        ("GET", "/costs", '{"employee_id": "e-7"}', "Bearer hunter22"),
        ("POST", "/calculator", '{"problem": "two \\"plus\\" two"}', ""),
    ]
    last = scripted_model.requests("advisor")[-1].request
    assert last is not None
    results = [result.text for result in last.results]
    assert "upwards" in results[0]
    assert results[2] == '{"answered": "/costs"}'
    assert "'query' is a required property" in results[4]
    assert "hunter22" not in worker.log_text()


def test_a_published_agent_uses_its_mcp_toolbox_and_keeps_the_tools_that_it_began_with(
    documents: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    benefits: ThreadingHTTPServer,
    payroll_server: McpSite,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    settings = settings_for(scripted_model, benefits, payroll_server.url)
    worker_process(valkey_url, agents=["network_documents"], settings=settings, arguments=_QUICK)
    script = scripted_model.script_where(
        "payroll", lambda asked: "Use tools at your disposal" in asked.system
    )
    script.call("get_payslip", {"employee": "Ada", "month": 3})
    script.call("Send_by_mail", {"employee": "Ada"}).then("${results}")
    ours = lifecycle(valkey_url)

    result = ours.run(agent="payroll", goal="My payslip", wait_seconds=30)

    assert "Ada got 4,200 in month 3" in (result.summary or "")
    assert "[ERROR]" in (result.summary or "")
    assert "Ada has no address" in (result.summary or "")
    first = scripted_model.requests("payroll")[0].request
    assert first is not None
    assert sorted(first.tools) == ["Send_by_mail", "get_payslip"]


def test_a_toolbox_that_cannot_be_listed_ends_the_run_with_its_name(
    documents: Path,
    valkey_url: str,
    scripted_model: ScriptedServer,
    benefits: ThreadingHTTPServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
) -> None:
    with mcp_site("sse", payslips(extra=("run_agent",))) as hostile:
        settings = settings_for(scripted_model, benefits, hostile.url)
        worker_process(valkey_url, agents=["network_documents"], settings=settings, arguments=_QUICK)
        result = lifecycle(valkey_url).run(agent="payroll", goal="My payslip", wait_seconds=30)
    assert result.terminal_state is SubagentState.FAILED
    assert result.error_classification is ErrorClassification.TOOL_ERROR
    assert "run_agent" in (result.error_message or "")
    assert not scripted_model.requests()


def _everything(url: str) -> str:
    """All that a store holds, as text."""
    client = redis.Redis.from_url(url, decode_responses=True)
    readers = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1),
    }
    try:
        return "\n".join(f"{key} {readers[str(client.type(key))](key)}" for key in client.scan_iter("*"))
    finally:
        client.close()


def test_credentials_that_an_operator_lets_a_document_hold_are_used_and_stand_nowhere(
    valkey_url: str,
    scripted_model: ScriptedServer,
    benefits: ThreadingHTTPServer,
    worker_process: WorkerFactory,
    lifecycle: LifecycleFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MODEL_URL", scripted_model.base_url)
    monkeypatch.setenv("REST_URL", f"http://127.0.0.1:{benefits.server_address[1]}/echo")
    settings = {
        "agent_spec__allow_embedded_secrets": "true",
        "remote_tools__private_hosts": "127.0.0.1",
    }
    worker = worker_process(valkey_url, agents=["secret_documents"], settings=settings, arguments=_QUICK)
    # A missing model is final, unless the document's policy lists it as recoverable.
    not_there = ErrorReply(404, code="model_not_found")
    scripted_model.script("clerk").call("echo").fault(not_there).then("${results}")

    result = lifecycle(valkey_url).run(agent="clerk", goal="Echo.", wait_seconds=30)

    assert result.terminal_state is SubagentState.SUCCEEDED
    assert [request.status for request in scripted_model.requests("clerk")] == [404, 200, 200]
    asked = scripted_model.requests("clerk")[0].request
    assert asked is not None
    assert asked.headers["authorization"] == "Bearer canary-key-1"
    assert benefits.RequestHandlerClass.asked[0][3] == "Bearer canary-header-3"  # pyright: ignore
    assert result.handle is not None
    stored = _everything(valkey_url)
    assert result.handle.subagent_id in stored
    for place in (stored, worker.log_text(), repr(result), str(asked.body)):
        assert "canary-" not in place


def test_without_that_leave_such_a_document_stops_the_worker_with_the_mend(
    valkey_url: str, worker_process: WorkerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("REST_URL", "http://127.0.0.1:1/echo")
    with pytest.raises(ProcessFailedError) as caught:
        worker_process(valkey_url, agents=["secret_documents"], arguments=_QUICK)
    log = str(caught.value)
    assert '[llm_configs."own"] api_key_env' in log
    assert '[remote_tools.tools."echo"] headers' in log
    assert "canary-" not in log
