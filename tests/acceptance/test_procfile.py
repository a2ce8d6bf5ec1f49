"""The Procfile's lines, started as they stand with honcho: all come up, and SIGTERM ends all of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from retinue.store import keys
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import worker_environment

PROJECT = Path(__file__).parents[2]
_STARTED = re.compile(r"(worker|flower|web)\.1 started \(pid=(\d+)\)")


class Honcho(ChildProcess):
    """`honcho start` with the project's Procfile; it puts each of its processes into a session of its own."""

    def __init__(self, store_url: str, directory: Path) -> None:
        self.flower_port, self.web_port = free_ports(2)
        settings = {
            "store_url": store_url,
            "flower_port": self.flower_port,
            "flower_user": "ann",
            "flower_password": "s3cret",
            "http__port": self.web_port,
        }
        programs = Path(sys.executable).parent
        environment = worker_environment(settings)
        environment["XDG_STATE_HOME"] = str(directory / "state")
        environment["PATH"] = os.pathsep.join([str(programs), environment["PATH"]])
        command = [str(programs / "honcho"), "-f", str(PROJECT / "Procfile"), "start"]
        super().__init__(command, log=directory / "honcho.log", cwd=directory, env=environment)

    def started(self) -> dict[str, int]:
        """The process ids of the lines, by name."""
        return {name: int(pid) for name, pid in _STARTED.findall(self.log_text())}

    def close(self) -> None:
        """Kills what is left of the lines as well."""
        super().close()
        for pid in self.started().values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture
def honcho(valkey_server: PrivateServer, tmp_path: Path) -> Iterator[Honcho]:
    valkey_server.flush()
    with Honcho(valkey_server.url, tmp_path) as process:
        yield process


def test_the_lines_start_as_they_stand_and_sigterm_ends_them_all(
    honcho: Honcho, valkey_server: PrivateServer
) -> None:
    honcho.wait_for_log(r"ready\.\W*$", timeout_s=40)
    honcho.wait_for_log(rf"Visit me at http://127\.0\.0\.1:{honcho.flower_port}", timeout_s=40)
    honcho.wait_for_log(rf"listening on http://127\.0\.0\.1:{honcho.web_port}", timeout_s=40)
    assert httpx2.get(f"http://127.0.0.1:{honcho.web_port}/healthz").status_code == 200
    started = honcho.started()
    assert set(started) == {"worker", "flower", "web"}
    store = valkey_server.client()
    assert store.hlen(keys.WORKERS) == 1

    honcho.terminate()
    honcho.wait(30)

    for name, pid in started.items():
        assert not members(pid), f"{name} has left processes behind"
    # In good order: the worker took itself out, nobody has to find out that it is dead.
    assert store.hlen(keys.WORKERS) == 0


def members(session: int) -> list[int]:
    """The processes of a session that are not gone, some moments after its leader was told to end."""
    deadline = time.monotonic() + 30
    while (found := _alive(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _alive(session: int) -> list[int]:
    alive: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # After the name, which may hold blanks: state, parent, group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    alive.append(int(entry.name))
    return alive
