"""A rig for the tests of the HTTP API: `RunRig`, with API processes and their keys."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.acceptance.run_rig import DEADLINE_S, RunRig, run_rig

from retinue.client.dispatch.connections import connections_for
from retinue.store.operations.api_keys import Scope, create_key
from retinue.testing.processes import ChildProcess
from retinue.testing.workers import worker_environment

WEB_COMMAND = (sys.executable, "-m", "retinue.cli", "web")
_LISTENING = r"^listening on "
ALL_SCOPES = (Scope.READ, Scope.WRITE, Scope.ADMIN)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ApiProcess:
    """`retinue web` as a process, on a port that it keeps over restarts.

    Args:
        directory: Where it runs, writes its log `<name>.log`, and has its state directory.
        settings: See `worker_environment`; a member of `[http]` as http__max_body_bytes.
        arguments: Further arguments of the command.
    """

    def __init__(
        self, directory: Path, name: str, settings: dict[str, Any], arguments: Sequence[str]
    ) -> None:
        self.name = name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.state_directory = directory / "state"
        self._directory = directory
        self._environment = {
            **worker_environment(settings, import_paths=[Path(__file__).parents[1]]),
            "XDG_STATE_HOME": str(self.state_directory),
        }
        self._arguments = arguments
        self._listened = 0
        self._log = directory / f"{name}.log"
        self.process = self._start()

    def wait_until_ready(self) -> None:
        """Returns once it listens."""
        self.process.wait_for_log(_LISTENING, timeout_s=DEADLINE_S, count=self._listened + 1)

    def restart(self) -> None:
        """Ends it in good order, and starts it anew on the same port."""
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        self.process.close()
        self.process = self._start()
        self.wait_until_ready()

    def kill(self) -> None:
        """Ends it at once (SIGKILL); `start_again` starts it anew."""
        self.process.kill()
        self.process.close()

    def start_again(self) -> None:
        """Starts it anew on the same port, after it was killed or has ended."""
        self.process.close()
        self.process = self._start()
        self.wait_until_ready()

    def close(self) -> None:
        """Kills it, and prints the end of its log, which pytest shows if the test failed."""
        self.process.close()
        print(self.process.failure("was closed"))

    def _start(self) -> ChildProcess:
        if self._log.exists():
            self._listened = len(re.findall(_LISTENING, self._log.read_text(), re.MULTILINE))
        return ChildProcess(
            [*WEB_COMMAND, "--port", str(self.port), *self._arguments],
            log=self._log,
            cwd=self._directory,
            env=self._environment,
        )


class HttpRig:
    """API processes over the store of a `RunRig`, whose workers and model are at hand as `rig`."""

    def __init__(self, rig: RunRig, directory: Path, stack: ExitStack) -> None:
        self.rig = rig
        self.apis: list[ApiProcess] = []
        self._directory = directory
        self._stack = stack

    def api(self, *, ready: bool = True, arguments: Sequence[str] = (), **settings: Any) -> ApiProcess:
        """Starts an API process; unless `ready` is False, returns once it listens."""
        own = {"store_url": self.rig.server.url, **settings}
        made = ApiProcess(self._directory, f"api{len(self.apis) + 1}", own, arguments)
        self.apis.append(made)
        self._stack.callback(made.close)
        if ready:
            made.wait_until_ready()
        return made

    def key(
        self, tenant: str = "_", scopes: Sequence[Scope | str] = ALL_SCOPES, *, name: str = "test"
    ) -> str:
        """A new API key, made in the store."""
        store = connections_for(self.rig.settings).store
        return create_key(store, tenant=tenant, scopes=scopes, name=name).text

    def http(self, key: str | None = None, *, api: ApiProcess | None = None, **options: Any) -> httpx2.Client:
        """A client of an API process, the first by default.

        Args:
            key: Sent with each request. None = a new one of tenant `_` with all scopes; "" = none.
        """
        sent = self.key() if key is None else key
        headers = {"Authorization": f"Bearer {sent}"} if sent else {}
        client = httpx2.Client(
            base_url=(api or self.apis[0]).url,
            headers={**headers, **options.pop("headers", {})},
            timeout=options.pop("timeout", DEADLINE_S),
            **options,
        )
        self._stack.callback(client.close)
        return client


@contextmanager
def http_rig(directory: Path, *, agents: str, **settings: object) -> Generator[HttpRig]:
    """A rig with a store and a scripted model of its own; no worker and no API process yet."""
    with run_rig(directory, agents=agents, **settings) as rig, ExitStack() as stack:
        yield HttpRig(rig, directory, stack)
