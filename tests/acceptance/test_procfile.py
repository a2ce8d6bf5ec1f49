"""The Procfile's lines, started as they stand with honcho: both come up, and SIGTERM ends all of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from retinue.store import keys
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import worker_environment

PROJECT = Path(__file__).parents[2]
_STARTED = re.compile(r"(worker|flower)\.1 started \(pid=(\d+)\)")


class Honcho(ChildProcess):
    """`honcho start` with the project's Procfile; it puts each of its processes into a session of its own."""

    def __init__(self, store_url: str, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = {
            "store_url": store_url,
            "flower_port": self.port,
            "flower_user": "ann",
            "flower_password": "s3cret",
        }
        programs = Path(sys.executable).parent
        environment = worker_environment(settings)
        environment["PATH"] = os.pathsep.join([str(programs), environment["PATH"]])
        command = [str(programs / "honcho"), "-f", str(PROJECT / "Procfile"), "start", "worker", "flower"]
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


@pytest.fixture
def honcho(valkey_server: PrivateServer, tmp_path: Path) -> Iterator[Honcho]:
    valkey_server.flush()
    with Honcho(valkey_server.url, tmp_path) as process:
        yield process


def test_the_lines_worker_and_flower_start_as_they_stand_and_sigterm_ends_both(
    honcho: Honcho, valkey_server: PrivateServer
) -> None:
    honcho.wait_for_log(r"ready\.\W*$", timeout_s=40)
    honcho.wait_for_log(rf"Visit me at http://127\.0\.0\.1:{honcho.port}", timeout_s=40)
    started = honcho.started()
    assert set(started) == {"worker", "flower"}
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
