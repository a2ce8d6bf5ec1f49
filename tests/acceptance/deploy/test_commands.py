"""The commands of the shipped files, run as they stand there: compose services, units, and the image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.acceptance.http.http_rig import free_port

from retinue.testing.processes import ChildProcess
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer, ServerKind, server_binary
from retinue.testing.workers import worker_environment

DEPLOY = Path(__file__).parents[3] / "deploy"
PROGRAMS = Path(sys.executable).parent
AGENTS = Path(__file__).parents[1]
DEADLINE_S = 60.0
GIVEN = {
    "RETINUE_STORE_PASSWORD": "of-the-test",
    "RETINUE_FLOWER_PASSWORD": "of-flower",
    "RETINUE_AGENTS": "echo_agents",
    "OPENAI_API_KEY": "test-key",
}
"""What a person exports before `docker compose up`."""


def filled(text: str) -> str:
    """A text of the compose file with its variables in place, as compose writes them."""

    def value(match: re.Match[str]) -> str:
        name, _, default = match[1].partition(":")
        assert name in GIVEN or default, f"{name}: neither a default nor among what a person is told to give"
        return GIVEN.get(name, default.removeprefix("-"))

    return re.sub(r"\$\{([^}]+)\}", value, text)


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found["services"]


class Composed:
    """The services of compose.yaml as processes of this machine, each on a free port.

    Args:
        services: Of the file.
        directory: Where they run.
        stack: Ends them.
    """

    def __init__(self, services: Mapping[str, Any], directory: Path, stack: ExitStack) -> None:
        self._services = services
        self._directory = directory
        self._stack = stack
        self.store_port = free_port()

    def start_store(self) -> None:
        """The server, with the shipped configuration and the password."""
        binary = server_binary(ServerKind.VALKEY)
        assert binary is not None
        command = [filled(word) for word in self._services["store"]["command"]]
        assert command[:2] == ["valkey-server", "/etc/retinue/redis.conf"]
        command[:2] = [str(binary), str(DEPLOY / "redis.conf"), "--port", str(self.store_port)]
        store = self._start("store", command, {})
        store.wait_for_log("Ready to accept connections", timeout_s=DEADLINE_S)

    def start(
        self,
        service: str,
        *,
        command: Sequence[str] | None = None,
        arguments: Sequence[str] = (),
        **more: str,
    ) -> ChildProcess:
        """A service of the image, with the environment of the file.

        Args:
            command: In place of the file's.
            arguments: Added to the command.
            more: Further environment.
        """
        entry = self._services[service]
        environment = {name: filled(str(value)) for name, value in entry["environment"].items()}
        url = environment["RETINUE_STORE_URL"]
        assert url == f"redis://:{GIVEN['RETINUE_STORE_PASSWORD']}@store:6379/0"
        environment["RETINUE_STORE_URL"] = url.replace("store:6379", f"127.0.0.1:{self.store_port}")
        return self._start(service, [*(command or entry["command"]), *arguments], {**environment, **more})

    def run(self, *command: str) -> str:
        """What a command prints, run as `docker compose run --rm web` does."""
        process = self.start("web", command=command)
        assert process.wait(DEADLINE_S) == 0, process.log_text()
        return process.log_text()

    def _start(self, name: str, command: list[str], environment: Mapping[str, str]) -> ChildProcess:
        base = worker_environment({}, import_paths=[AGENTS])
        path = os.pathsep.join([str(PROGRAMS), base["PATH"]])
        program = shutil.which(command[0], path=path)
        assert program is not None, f"{command[0]} is no program of the image"
        process = ChildProcess(
            [program, *command[1:]],
            log=self._directory / f"{name}-{free_port()}.log",
            cwd=self._directory,
            env={**base, **environment, "PATH": path, "XDG_STATE_HOME": str(self._directory / "state")},
        )
        self._stack.callback(process.close)
        return process


def test_the_composed_services_work_together(services: Mapping[str, Any], tmp_path: Path) -> None:
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedServer())
        composed = Composed(services, tmp_path, stack)
        composed.start_store()
        made = composed.run("retinue", "keys", "create", "--name", "mine", "--scope", "admin", "--json")
        found = re.search(r"rtn_\w+", made)
        assert found is not None, made
        web_port, flower_port = free_port(), free_port()
        web = composed.start("web", arguments=["--port", str(web_port)])
        worker = composed.start("worker", OPENAI_BASE_URL=model.base_url)
        flower = composed.start("flower", arguments=[f"--port={flower_port}"])
        web.wait_for_log("listening on", timeout_s=DEADLINE_S)
        worker.wait_for_log(r"\bready\.$", timeout_s=DEADLINE_S)
        flower.wait_for_log("Visit me at", timeout_s=DEADLINE_S)

        with httpx2.Client(
            base_url=f"http://127.0.0.1:{web_port}",
            headers={"Authorization": f"Bearer {found[0]}"},
            timeout=DEADLINE_S,
        ) as http:
            assert http.get("/healthz").status_code == 200
            run = http.post("/v1/runs", json={"session_id": "c", "agent": "echo", "goal": "hello"}).json()
            waited = http.get(f"/v1/runs/{run['run_id']}/wait", params={"timeout_seconds": 45})
            assert waited.json()["state"] == "SUCCEEDED"
        login = (GIVEN.get("RETINUE_FLOWER_USER", "admin"), GIVEN["RETINUE_FLOWER_PASSWORD"])
        assert httpx2.get(f"http://127.0.0.1:{flower_port}/workers").status_code == 401
        assert httpx2.get(f"http://127.0.0.1:{flower_port}/workers", auth=login).status_code == 200


def test_the_web_service_does_not_start_without_a_key(services: Mapping[str, Any], tmp_path: Path) -> None:
    with ExitStack() as stack:
        composed = Composed(services, tmp_path, stack)
        composed.start_store()
        web = composed.start("web", arguments=["--port", str(free_port())])
        assert web.wait(DEADLINE_S) == 1
        assert "retinue keys create" in web.log_text()


def test_the_image_runs_a_worker_and_is_not_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    last = {name: rest for name, rest in instructions if name in ("USER", "CMD", "STOPSIGNAL", "WORKDIR")}
    copied = [rest.split()[:-1] for name, rest in instructions if name == "COPY" and "--from" not in rest]

    assert last["USER"] not in ("root", "0")
    assert last["CMD"].startswith('["celery", "-A", "retinue.worker", "worker"')
    for source in (name for names in copied for name in names):
        assert (DEPLOY.parent / source).exists(), source


def test_two_workers_start_and_each_may_drain(services: Mapping[str, Any]) -> None:
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["worker"]["stop_grace_period"] == "60s"


@pytest.mark.parametrize(
    ("unit", "ready"),
    [
        ("retinue-worker@.service", r"\bready\.$"),
        ("retinue-web.service", "listening on"),
        ("retinue-flower.service", "Visit me at"),
    ],
)
def test_the_command_of_a_unit_starts(
    valkey_server: PrivateServer, tmp_path: Path, unit: str, ready: str
) -> None:
    text = (DEPLOY / unit).read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    own = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    for name, value in own.items():
        line = line.replace(f"${{{name}}}", value)
    # What systemd puts in: the instance's name, and a per cent sign for two.
    words = shlex.split(line.replace("%i", "one").replace("%%", "%"))
    assert words[0].startswith("/opt/retinue/.venv/bin/")
    words[0] = str(PROGRAMS / Path(words[0]).name)
    settings = {
        "store_url": valkey_server.url,
        "agents": "echo_agents",
        "flower_user": "ann",
        "flower_password": "of-flower",
        "flower_port": free_port(),
        "http__port": free_port(),
    }
    environment = {**worker_environment(settings, import_paths=[AGENTS]), "XDG_STATE_HOME": str(tmp_path)}
    with ChildProcess(words, log=tmp_path / "unit.log", cwd=tmp_path, env=environment) as process:
        process.wait_for_log(ready, timeout_s=DEADLINE_S)
        process.terminate()
        process.wait(DEADLINE_S)
