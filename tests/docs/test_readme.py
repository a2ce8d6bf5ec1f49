"""The README's example, run as it is written: its modules, its commands, a real worker and a real Flower."""

from __future__ import annotations

import base64
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import metadata
from pathlib import Path

import pytest
from tests.docs.fenced import PROJECT, blocks, commands

from retinue.store import keys
from retinue.testing import ScriptedServer
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import worker_environment

README = PROJECT / "README.md"
HANDBOOK = """
def search(query: str) -> str:
    return f"Opened headphones may be returned within 14 days (asked: {query})."
"""


class Shop:
    """The reader's project: `shop.agents` from the README, and `shop.handbook`, which is the reader's own."""

    def __init__(
        self, directory: Path, server: PrivateServer, model: ScriptedServer, stack: ExitStack
    ) -> None:
        agents, ask = blocks(README, "python")
        package = directory / "shop"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "handbook.py").write_text(HANDBOOK)
        # "`from shop import handbook`: any module of yours", says the comment in the block.
        (package / "agents.py").write_text(f"from shop import handbook\n{agents}")
        (directory / "ask.py").write_text(ask)
        self._directory, self._stack, self._store = directory, stack, server.client()
        (shell,) = [block for block in blocks(README, "") if "RETINUE_STORE_URL" in block]
        self.lines = commands(shell)
        (exported,) = [line[1:] for line in self.lines if line[0] == "export"]
        self._environment = {
            **worker_environment({}),
            **dict(setting.split("=", 1) for setting in exported),
            # Of this desk: another server, and a model that needs no key of ours.
            "RETINUE_STORE_URL": server.url,
            "OPENAI_BASE_URL": model.base_url,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, command: list[str], **environment: str) -> ChildProcess:
        """Starts one of the README's commands in the project's directory."""
        log = self._directory / f"{Path(command[0]).name}-{command[-1]}.log".replace("/", "-")
        process = ChildProcess(
            command, log=log, cwd=self._directory, env={**self._environment, **environment}
        )
        return self._stack.enter_context(process)

    def start_worker(self) -> None:
        """Starts the README's worker; without a log level it does not say when it takes work."""
        worker = self.start(self.line("celery"))
        deadline = time.monotonic() + 30
        while not self._store.hlen(keys.WORKERS):
            if not worker.running or time.monotonic() > deadline:
                raise worker.failure("has not advertised its agents")
            time.sleep(0.02)

    def line(self, *beginning: str) -> list[str]:
        """The README's command line that begins like this."""
        (found,) = [line for line in self.lines if line[: len(beginning)] == list(beginning)]
        return found


@pytest.fixture
def shop(tmp_path: Path, valkey_server: PrivateServer, scripted_model: ScriptedServer) -> Iterator[Shop]:
    valkey_server.flush()
    with ExitStack() as stack:
        yield Shop(tmp_path, valkey_server, scripted_model, stack)


def test_the_example_runs_as_written(shop: Shop, scripted_model: ScriptedServer) -> None:
    support = scripted_model.script_where("support", lambda asked: "Help the customer." in asked.system)
    support.call("run_agent", {"name": "researcher", "task": "Returning opened headphones"})
    support.then("Yes, you may. ${results}")
    researcher = scripted_model.script("researcher")
    researcher.call("search_handbook", {"query": "${user}"}).then("The handbook says: ${results}")
    shop.start_worker()

    asked = shop.start([sys.executable, "ask.py"])
    assert asked.wait(60) == 0, asked.log_text()

    assert asked.log_text().strip() == (
        "Yes, you may. The handbook says: Opened headphones may be returned within 14 days "
        "(asked: Returning opened headphones)."
    )
    last = scripted_model.requests("support")[-1]
    assert last.request is not None
    texts = [message.text for message in last.request.messages]
    assert texts.count("The customer lives in Germany.") == 1
    assert last.model == "gpt-5-mini"
    researched = scripted_model.requests("researcher")[0]
    assert researched.request is not None
    assert researched.request.tools == ("search_handbook",)


def test_the_flower_line_starts_a_flower_that_asks_for_a_password(shop: Shop) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    login = {"RETINUE_FLOWER_USER": "ann", "RETINUE_FLOWER_PASSWORD": "s3cret"}
    flower = shop.start(shop.line("retinue", "flower"), RETINUE_FLOWER_PORT=str(port), **login)
    flower.wait_for_log("Visit me at", timeout_s=30)

    request = urllib.request.Request(f"http://127.0.0.1:{port}/workers")
    request.add_header("Authorization", "Basic " + base64.b64encode(b"ann:s3cret").decode())
    with urllib.request.urlopen(request, timeout=30) as reply:
        assert reply.status == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/workers", timeout=30)
    with refused.value as error:
        assert error.code == 401


def test_the_install_line_names_extras_that_exist(shop: Shop) -> None:
    requirement = shop.line("pip", "install")[2]
    name, _, extras = requirement.rstrip("]").partition("[")

    assert name == metadata("retinue")["Name"]
    assert set(extras.split(",")) <= set(metadata("retinue").get_all("Provides-Extra") or ())
