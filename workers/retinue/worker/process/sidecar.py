"""Keeps a worker's lease alive, in a process of its own that no user code can stall.

This file is run by path (`python -I -S sidecar.py`) and imports nothing but the standard library, so
that it is up in milliseconds and a few megabytes. It speaks to the worker over its standard input and
output, and to the server over a socket of its own:

- input: one line of JSON (see `Config`), then a byte for each heartbeat; its end means that the worker
  is gone, however it went: the lease is deleted at once, and the election if it was the elected one.
- output: `held <t>` after each renewal, t = CLOCK_MONOTONIC seconds of the moment before it was sent;
  `failed hang` (no heartbeat) or `failed store` (no good reply) after each that did not happen, so
  that silence means a dead sidecar; `vanished` if the lease was gone while it should have been there.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, BinaryIO

RENEW = b"""#!lua flags=allow-oom
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then return 1 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
return 0
"""

RESIGN = b"""#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class Config:
    """What the worker writes in the first line.

    Args:
        line: A JSON object: key, value, process, election (the key of the elected reaper), lease_ms,
            hang_ms, expected (the lease exists already), worker_pid, and the server: host, port, path,
            db, username, password, tls (null or check, check_hostname, ca_file, cert_file, key_file),
            sentinels (null, or addresses like this one: then they are asked for host and port) and
            service (what they call it).
    """

    def __init__(self, line: bytes) -> None:
        fields: dict[str, Any] = json.loads(line)
        self.key: str = fields["key"]
        self.value: str = fields["value"]
        self.process: str = fields["process"]
        self.election: str = fields["election"]
        self.lease_s: float = fields["lease_ms"] / 1000
        self.hang_s: float = fields["hang_ms"] / 1000
        self.expected: bool = fields["expected"]
        self.worker_pid: int = fields["worker_pid"]
        self.server: dict[str, Any] = fields["server"]


Reply = bytes | int | None | list["Reply"]


class RefusedError(Exception):
    """The server answered with an error."""


class Server:
    """One connection to the server, made when needed and dropped at the first doubt.

    Args:
        address: As in `Config`.
        timeout_s: Seconds for connecting and for each reply.
    """

    def __init__(self, address: dict[str, Any], timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._sentinels: list[dict[str, Any]] = list(address.get("sentinels") or ())
        self._socket: socket.socket | None = None
        self._replies: BinaryIO | None = None

    def call(self, *words: str | bytes | int) -> Reply:
        """Send a command and wait for its reply.

        Raises:
            OSError: No connection, or no reply in time.
            RefusedError: An error reply.
        """
        try:
            if self._socket is None:
                self._connect()
            return self._exchange(*words)
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Close the connection, if there is one."""
        if self._replies is not None:
            self._replies.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._replies = None
        # Perhaps it was not there, or no longer the primary: the next sentinel may know more.
        self._sentinels = self._sentinels[1:] + self._sentinels[:1]

    def _connect(self) -> None:
        address = self._address
        if self._sentinels:
            address = {**address, **self._ask_sentinel(self._sentinels[0])}
        if address["path"] is not None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket = opened
            opened.settimeout(self._timeout_s)
            opened.connect(address["path"])
        else:
            opened = socket.create_connection((address["host"], address["port"]), self._timeout_s)
            self._socket = opened
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address["tls"] is not None:
            self._socket = opened = _wrap(opened, address["tls"], address["host"])
        self._replies = opened.makefile("rb")
        if address["password"] is not None:
            user = () if address["username"] is None else (address["username"],)
            self._exchange("AUTH", *user, address["password"])
        if address["db"]:
            self._exchange("SELECT", address["db"])

    def _ask_sentinel(self, place: dict[str, Any]) -> dict[str, Any]:
        sentinel = Server(place, self._timeout_s / 2)
        try:
            found = sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address["service"])
        finally:
            sentinel.drop()
        if not isinstance(found, list):
            raise ConnectionError("the sentinel names no primary")
        host, port = (word.decode() if isinstance(word, bytes) else "" for word in found)
        return {"host": host, "port": int(port)}

    def _exchange(self, *words: str | bytes | int) -> Reply:
        assert self._socket is not None
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
        self._socket.sendall(b"".join(parts))
        return self._read()

    def _read(self) -> Reply:
        assert self._replies is not None
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RefusedError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._replies.read(length + 2)[:-2]
        if kind == b"*":
            count = int(rest)
            return None if count < 0 else [self._read() for _ in range(count)]
        return rest


def _wrap(opened: socket.socket, options: dict[str, Any], host: str) -> socket.socket:
    import ssl

    context = ssl.create_default_context(cafile=options["ca_file"])
    mode = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}[
        options["check"]
    ]
    context.check_hostname = options["check_hostname"] and mode is ssl.CERT_REQUIRED
    context.verify_mode = mode
    if options["cert_file"] is not None:
        context.load_cert_chain(options["cert_file"], options["key_file"])
    return context.wrap_socket(opened, server_hostname=host)


class Sidecar:
    """Renews the lease every quarter of its length while the worker's heart beats.

    Args:
        config: What the worker wants kept.
        heart: File descriptor that the heartbeats come from.
        reports: File descriptor that the reports go to.
    """

    def __init__(self, config: Config, heart: int, reports: int) -> None:
        self._config = config
        self._heart = heart
        self._reports = reports
        self._server = Server(config.server, timeout_s=config.lease_s / 2)
        self._expected = config.expected
        self._beat_at = time.monotonic()
        self._complained = False
        os.set_blocking(heart, False)
        os.set_blocking(reports, False)

    def run(self) -> None:
        """Keep the lease until the worker is gone, then delete it."""
        poll = select.poll()
        poll.register(self._heart, select.POLLIN)
        worker = self._open_worker()
        if worker is not None:
            poll.register(worker, select.POLLIN)
        renew_at, hung = time.monotonic(), False
        while True:
            ready = poll.poll(max(0.0, renew_at - time.monotonic()) * 1000)
            if self._worker_gone([descriptor for descriptor, _ in ready], worker):
                break
            now = time.monotonic()
            hung_before, hung = hung, now - self._beat_at >= self._config.hang_s
            if now < renew_at and not (hung_before and not hung):
                continue
            if hung:
                self._report("failed hang")
            renewed = not hung and self._renew()
            renew_at = now + self._config.lease_s / (4 if renewed or hung else 16)
        self._let_go()

    def _open_worker(self) -> int | None:
        # A forked grandchild may hold the pipe open: the kernel's own word on the worker is surer.
        if os.getppid() != self._config.worker_pid or not hasattr(os, "pidfd_open"):
            return None
        try:
            return os.pidfd_open(self._config.worker_pid)
        except OSError:
            return None

    def _worker_gone(self, ready: list[int], worker: int | None) -> bool:
        if os.getppid() != self._config.worker_pid or worker in ready:
            return True
        if self._heart not in ready:
            return False
        try:
            if not os.read(self._heart, 4096):
                return True
        except BlockingIOError:
            return False
        self._beat_at = time.monotonic()
        return False

    def _renew(self) -> bool:
        config = self._config
        lease_ms = int(config.lease_s * 1000)
        asked_at = time.monotonic()
        try:
            existed = self._server.call("EVAL", RENEW, 1, config.key, lease_ms, config.value)
        except (OSError, ValueError, RefusedError) as error:
            self._complain(error)
            self._report("failed store")
            return False
        self._complained = False
        if not existed and self._expected:
            self._report("vanished")
        self._expected = True
        self._report(f"held {asked_at:.6f}")
        return True

    def _report(self, line: str) -> None:
        # A frozen worker does not read; what no longer fits it finds out by the clock. If it is
        # gone, the next look at it tells.
        with contextlib.suppress(OSError):
            os.write(self._reports, line.encode() + b"\n")

    def _complain(self, error: Exception) -> None:
        # Once an outage; the text of an error reply could only tell what the worker logs itself.
        if not self._complained:
            self._complained = True
            print(f"lease_renewal_failed error={type(error).__name__}", file=sys.stderr, flush=True)

    def _let_go(self) -> None:
        config = self._config
        for _ in range(2):  # the kept connection may be stale
            try:
                self._server.call("DEL", config.key)
                # Whoever is elected next need not wait for this one's time to be over.
                self._server.call("EVAL", RESIGN, 1, config.election, config.process)
                return
            except (OSError, ValueError, RefusedError):
                continue


def main() -> None:
    """Run until the worker is gone."""
    # Whoever stops the service may signal every process of it, but while the worker drains it still
    # needs its lease. The end of the pipe is the signal to leave.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb", buffering=0) as first:
        line = first.readline()
    if line.endswith(b"\n"):
        Sidecar(Config(line), heart=0, reports=1).run()


if __name__ == "__main__":
    main()
