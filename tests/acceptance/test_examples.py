"""The example applications, run as their READMEs say: real web servers, a real worker, a scripted model."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from retinue.testing import ScriptedServer
from retinue.testing.processes import ChildProcess
from retinue.testing.workers import WorkerFactory, worker_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
ANSWER = "Opened headphones may be returned within 14 days"
_QUICK = ("--without-mingle", "--without-gossip")
_FORK_HOOKS = """
from retinue.client import SubagentLifecycle

def when_ready(server):
    # The application is loaded and no worker is forked yet: what is opened here, a fork copies.
    from support.views import lifecycle
    server.log.info("before the fork: %s", ask(lifecycle, "before the fork"))

def post_fork(server, worker):
    from support.views import lifecycle
    worker.log.info("after the fork: %s", ask(lifecycle, f"in process {worker.pid}"))

def ask(lifecycle, why):
    handle = lifecycle.launch(agent="support", goal="Opened headphones", correlation_id=why)
    return lifecycle.wait(handle, timeout_seconds=30).state.value
"""


class Web:
    """A web server of an example."""

    def __init__(self, process: ChildProcess, address: str) -> None:
        self.process = process
        self.url = process.wait_for_log(address, timeout_s=30)[1]

    def post(self, path: str, body: bytes, *, kind: str = "application/json") -> tuple[int, dict[str, Any]]:
        """The status and the JSON of an answer."""
        request = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=40) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}

    def result(self, handle: dict[str, Any]) -> dict[str, Any]:
        """Asks until the run has ended."""
        deadline = time.monotonic() + 30
        while True:
            code, answer = self.post("/answers", json.dumps(handle).encode())
            if code != 202:
                assert code == 200, answer
                return answer
            assert time.monotonic() < deadline, f"not ended: {answer}"
            time.sleep(0.05)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def help_desk(scripted_model: ScriptedServer) -> ScriptedServer:
    """A model that delegates the research, and answers with what came back."""
    support = scripted_model.script("support")
    support.call("run_agent", {"name": "researcher", "task": "${user}"}).then("Yes: ${results}")
    return scripted_model


def test_fastapi_answers_with_a_handle_and_later_with_the_result(
    help_desk: ScriptedServer,
    valkey_url: str,
    worker_process: WorkerFactory,
    tmp_path: Path,
    stack: ExitStack,
) -> None:
    example = EXAMPLES / "fastapi_app"
    researcher = help_desk.script("researcher")
    researcher.call("search_handbook", {"query": "opened headphones"}).hold("asked").then("${results}")
    environment = worker_environment({"store_url": valkey_url}, import_paths=[example])
    command = [sys.executable, "-m", "uvicorn", "--port", "0", "helpdesk.app:app"]
    uvicorn = stack.enter_context(ChildProcess(command, log=tmp_path / "web.log", env=environment))
    web = Web(uvicorn, r"Uvicorn running on (http://\S+)")
    question = json.dumps({"text": "Opened headphones", "ticket": "9001"}).encode()

    # Nothing listens to the queue yet, and nothing ever did.
    code, refused = web.post("/questions", question)
    assert (code, "start a worker" in refused["detail"]) == (503, True)
    worker_process(
        valkey_url,
        agents=["helpdesk.agents"],
        model_url=help_desk.base_url,
        import_paths=[example],
        arguments=_QUICK,
    )

    code, handle = web.post("/questions", question)
    assert (code, handle["correlation_id"]) == (202, "9001")
    assert web.post("/questions", question) == (202, handle), "the same ticket is the same run"
    code, status = web.post("/answers", json.dumps(handle).encode())
    assert (code, status["state"] in ("PENDING", "STARTING", "RUNNING")) == (202, True)
    help_desk.release("asked")
    code, result = web.post("/answers?wait_seconds=30", json.dumps(handle).encode())
    assert (code, result["terminal_state"]) == (200, "SUCCEEDED")
    assert ANSWER in result["summary"]

    forged = {**handle, "role": "orchestrator"}
    assert web.post("/answers", json.dumps(forged).encode())[0] == 404
    assert web.post("/questions", b'{"text": ""}')[0] == 422
    uvicorn.terminate()
    uvicorn.wait()
    assert "Traceback" not in uvicorn.log_text()


class DjangoProject:
    """The Django example with a database of its own."""

    def __init__(self, store_url: str, directory: Path) -> None:
        self.database = directory / "shop.sqlite3"
        (directory / "site_settings.py").write_text(
            "from shop.settings import *\n"
            f"DATABASES['default']['NAME'] = {str(self.database)!r}\n"
            # How long a commit waits for readers, in seconds.
            "DATABASES['default']['OPTIONS'] = {'timeout': 0.5}\n"
        )
        (directory / "hooks.py").write_text(_FORK_HOOKS)
        self._directory = directory
        self.import_paths = [directory, EXAMPLES / "django_app"]
        settings = {"store_url": store_url}
        self.environment = worker_environment(settings, import_paths=self.import_paths)
        self.environment["DJANGO_SETTINGS_MODULE"] = "site_settings"

    def manage(self, *arguments: str) -> None:
        command = [sys.executable, str(EXAMPLES / "django_app" / "manage.py"), *arguments]
        log = self._directory / f"{arguments[0]}.log"
        with ChildProcess(command, log=log, env=self.environment) as process:
            assert process.wait(30) == 0, process.log_text()

    def serve(self, stack: ExitStack) -> Web:
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0"]
        command += ["--config", str(self._directory / "hooks.py")]
        command += ["--access-logfile", "-", "--access-logformat", "served by %(p)s", "shop.wsgi"]
        log = self._directory / "web.log"
        process = stack.enter_context(
            ChildProcess(command, log=log, cwd=self._directory, env=self.environment)
        )
        return Web(process, r"Listening at: (http://\S+)")


def test_django_launches_after_the_commit_from_every_process_of_a_pre_forked_server(
    help_desk: ScriptedServer,
    valkey_url: str,
    worker_process: WorkerFactory,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stack: ExitStack,
) -> None:
    project = DjangoProject(valkey_url, tmp_path)
    project.manage("migrate")
    project.manage("loaddata", "handbook")
    help_desk.script("researcher").call("search_handbook", {"word": "headphones"}).then("${results}")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "site_settings")
    worker_process(
        valkey_url,
        agents=["support.agents"],
        model_url=help_desk.base_url,
        import_paths=project.import_paths,
        arguments=_QUICK,
    )
    web = project.serve(stack)
    # A run was launched and waited for before the fork, and then in each forked process.
    web.process.wait_for_log("before the fork: SUCCEEDED", timeout_s=40)
    web.process.wait_for_log("after the fork: SUCCEEDED", count=2, timeout_s=40)

    def ask(text: str) -> tuple[int, dict[str, Any]]:
        return web.post("/questions", f"text={text}".encode(), kind="application/x-www-form-urlencoded")

    def ask_and_get(number: int) -> dict[str, Any]:
        code, handle = ask(f"Opened+headphones+{number}")
        assert code == 202, handle
        return web.result(handle)

    served_by: set[str] = set()
    deadline = time.monotonic() + 30
    with ThreadPoolExecutor(4) as pool:
        while len(served_by) < 2:
            assert time.monotonic() < deadline, "only one process of the server takes requests"
            for result in pool.map(ask_and_get, range(4)):
                assert ANSWER in result["summary"]
            served_by = set(re.findall(r"^served by <?(\d+)", web.process.log_text(), re.MULTILINE))

    launched = len(help_desk.requests("support"))
    assert ask("")[0] == 400
    assert web.post("/answers", b"not JSON")[0] == 400
    assert web.post("/answers", b'{"contract_version": 1}')[0] == 404
    with closing(sqlite3.connect(project.database)) as reader:
        # An unfinished read lets the question be inserted, and makes its commit fail.
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM support_question").fetchone()
        assert ask("Not+committed")[0] == 500
    assert ask_and_get(99)["terminal_state"] == "SUCCEEDED"
    assert len(help_desk.requests("support")) == launched + 2, (
        "what was rolled back was launched all the same"
    )
    web.process.terminate()
    web.process.wait()
