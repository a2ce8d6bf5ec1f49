"""A primary, its replicas and the sentinels that watch them, for tests of a failover."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import redis
import redis.sentinel

from retinue.contract.errors import StoreError
from retinue.store.connections.primary import Named, read_answer
from retinue.store.connections.sync_link import SyncLink
from retinue.testing.processes import ChildProcess, ProcessFailedError
from retinue.testing.servers import PrivateServer, ServerKind, server_binary

SERVICE = "retinue-test"
"""What the sentinels call the service."""

_TIMEOUT_S = 30.0
_POLL_S = 0.02
_REPLY_TIMEOUT_S = 1.0


class SentinelCluster:
    """One primary, replicas of it and sentinels, all on 127.0.0.1; up from `start` (or `with`) on.

    Args:
        kind: Which server to start; its binary is the sentinels' too.
        replicas: How many replicas.
        sentinels: How many sentinels; most of them must agree on a failover.
        password: Of the default user of the servers, without a double quote; None means no authentication.
        sentinel_password: Likewise of the sentinels.
        down_after_s: Seconds of silence after which a server counts as down.
        config: Further directives of the servers, by name.
    """

    def __init__(
        self,
        kind: ServerKind | str = ServerKind.VALKEY,
        *,
        replicas: int = 1,
        sentinels: int = 3,
        password: str | None = None,
        sentinel_password: str | None = None,
        down_after_s: float = 1.0,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = ServerKind(kind)
        self.directory = Path(tempfile.mkdtemp(prefix="retinue-sentinels-"))
        self._password = password
        self._sentinel_password = sentinel_password
        self._down_after_s = down_after_s
        own = {"appendfsync": "everysec", "repl-diskless-sync-delay": "0", **(config or {})}
        if password is not None:
            own["masterauth"] = password
        self.servers = [
            PrivateServer(self.kind, password=password, appendonly=True, config=own)
            for _ in range(replicas + 1)
        ]
        """The servers; the first is the primary until the first failover."""
        self.sentinel_ports: list[int] = []
        self._count = sentinels
        self._sentinels: list[ChildProcess] = []
        self._clients: list[redis.Redis] = []

    @property
    def url(self) -> str:
        """Address of database 0 of the service, with the passwords if there are any."""
        user = f":{quote(self._password, safe='')}@" if self._password else ""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        own = self._sentinel_password
        query = f"?sentinel_password={quote(own, safe='')}" if own else ""
        return f"sentinel://{user}{hosts}/{SERVICE}/0{query}"

    @property
    def sentinels(self) -> tuple[ChildProcess, ...]:
        """The sentinels' processes, in the order of `sentinel_ports`."""
        return tuple(self._sentinels)

    @property
    def primary(self) -> PrivateServer:
        """The server that the sentinels call the primary.

        Raises:
            ProcessFailedError: No sentinel answers.
        """
        told = [named for port in self.sentinel_ports if (named := self._named_by(port)) is not None]
        if not told:
            raise ProcessFailedError("no sentinel answers")
        newest = max(told, key=lambda named: named.config_epoch)
        return next(server for server in self.servers if server.port == newest.port)

    def start(self) -> Self:
        """Starts them all, and returns once the replicas are in step and the sentinels know each other.

        Raises:
            ProcessFailedError: One of them did not come up in 30 s.
        """
        primary, *replicas = [server.start() for server in self.servers]
        for replica in replicas:
            replica.client().execute_command("REPLICAOF", "127.0.0.1", primary.port)
        self.wait_until(lambda: all(map(self.follows, replicas)), "the replicas are not in step")
        self._start_sentinels(primary.port)
        self.wait_until(self._is_watched, "the sentinels do not know each other")
        return self

    def failover(self, end: Callable[[PrivateServer], None] = PrivateServer.kill) -> PrivateServer:
        """Ends the primary, and returns the replica that took over.

        Args:
            end: What is done to it: killed by default.

        Raises:
            ProcessFailedError: No replica took over within 30 s.
        """
        old = self.primary
        end(old)
        return self.wait_for_other_than(old)

    def wait_for_other_than(self, old: PrivateServer) -> PrivateServer:
        """The new primary, once it is one.

        Args:
            old: The one before.

        Raises:
            ProcessFailedError: No replica took over within 30 s.
        """

        def taken_over() -> bool:
            primary = self.primary
            return primary is not old and _role(primary)[0] == b"master"

        self.wait_until(taken_over, "no replica took over")
        return self.primary

    def all_name(self, server: PrivateServer) -> bool:
        """Whether each sentinel that answers calls a server the primary; they learn of it one by one."""
        told = [named for port in self.sentinel_ports if (named := self._named_by(port)) is not None]
        return bool(told) and all(named.port == server.port for named in told)

    def follows(self, server: PrivateServer) -> bool:
        """Whether a server says that it follows a primary and has all that it had."""
        return _role(server)[::3] == [b"slave", b"connected"]

    @contextmanager
    def replicas_paused(self) -> Generator[None]:
        """Freezes every replica that runs: the primary goes on, and nothing is acknowledged."""
        frozen = [server for server in self.servers if self.follows(server)]
        for replica in frozen:
            replica.pause()
        try:
            yield
        finally:
            for replica in frozen:
                replica.resume()

    def client(self, *, decode_responses: bool = False) -> redis.Redis:
        """A redis-py client of whichever server is the primary, closed with the cluster."""
        sentinel = redis.sentinel.Sentinel(
            [("127.0.0.1", port) for port in self.sentinel_ports],
            sentinel_kwargs={"password": self._sentinel_password, "socket_timeout": _REPLY_TIMEOUT_S},
            password=self._password,
        )
        client = sentinel.master_for(SERVICE, decode_responses=decode_responses)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Kills them all and removes their directories. May be called twice."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        for sentinel in self._sentinels:
            sentinel.close()
        self._sentinels.clear()
        for server in self.servers:
            server.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_sentinels(self, primary_port: int) -> None:
        binary = server_binary(self.kind)
        assert binary is not None  # the servers run
        self.sentinel_ports = _free_ports(self._count)
        for port in self.sentinel_ports:
            directory = self.directory / str(port)
            directory.mkdir()
            config = directory / "sentinel.conf"
            config.write_text("\n".join(self._sentinel_config(port, primary_port, directory)) + "\n")
            command = [str(binary), str(config), "--sentinel"]
            self._sentinels.append(ChildProcess(command, log=directory / "sentinel.log"))

    def _sentinel_config(self, port: int, primary_port: int, directory: Path) -> list[str]:
        down_ms = round(self._down_after_s * 1000)
        lines = [
            f"port {port}",
            "bind 127.0.0.1",
            f"dir {directory}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary_port} {self._count // 2 + 1}",
            f"sentinel down-after-milliseconds {SERVICE} {down_ms}",
            f"sentinel failover-timeout {SERVICE} {10 * down_ms}",
        ]
        if self._password is not None:
            lines.append(f'sentinel auth-pass {SERVICE} "{self._password}"')
        if self._sentinel_password is not None:
            lines.append(f'requirepass "{self._sentinel_password}"')
            lines.append(f'sentinel sentinel-pass "{self._sentinel_password}"')
        return lines

    def _is_watched(self) -> bool:
        told = [self._named_by(port) for port in self.sentinel_ports]
        return all(
            named is not None and (named.sentinels, named.replicas) == (self._count, len(self.servers) - 1)
            for named in told
        )

    def _named_by(self, port: int) -> Named | None:
        """What one sentinel says; None if it does not answer."""
        user = f":{quote(self._sentinel_password, safe='')}@" if self._sentinel_password else ""
        try:
            reply = _ask(f"redis://{user}127.0.0.1:{port}", "SENTINEL", "MASTER", SERVICE)
            return read_answer(reply, SERVICE)
        except StoreError:
            return None

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = _TIMEOUT_S) -> None:
        """Waits for something to become true.

        Args:
            condition: Asked again and again.
            what: What is wrong as long as it is not, for the error.
            timeout_s: Seconds.

        Raises:
            ProcessFailedError: It did not.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(sentinel.log_text()[-1_000:] for sentinel in self._sentinels)
                raise ProcessFailedError(f"{what} within {timeout_s:g} s", log_tail=logs)
            time.sleep(_POLL_S)


def _role(server: PrivateServer) -> list[object]:
    """A server's answer to ROLE; one that is away has none."""
    try:
        return _ask(server.url, "ROLE")
    except StoreError:
        return [b""]


def _ask(url: str, *command: str) -> Any:
    link = SyncLink(url, connect_timeout_s=_REPLY_TIMEOUT_S, timeout_s=_REPLY_TIMEOUT_S, retries=0)
    try:
        return link.execute(*command)
    finally:
        link.close()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
