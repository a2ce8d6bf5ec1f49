"""The small process that runs the embedded Valkey and ends it when its last owner is gone.

It is started as a script and uses the standard library only: it must be up in milliseconds and stay small.
How it knows what it has to know:

- *owners.lock*: each owner holds a shared POSIX record lock. The kernel drops it when the process dies,
  however it dies, and a forked child does not inherit it. The keeper waits for the exclusive lock; getting it
  means that no owner is left, and keeps new ones out until the server is down.
- *server.lock*: a `flock` that the keeper takes and the server inherits. While it is held, something may
  write to the data directory. Locks cannot be stale, so no pid file is ever believed.
- The server dies with the keeper (PR_SET_PDEATHSIG, Linux only).

Usage: keeper.py DIRECTORY SERVER_BINARY APPENDFSYNC START_SECONDS; one line on stdout says `ready`
or what failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

OWNERS_LOCK = "owners.lock"
SERVER_LOCK = "server.lock"
PASSWORD_FILE = "password"
STATE_FILE = "server.json"
LOG_FILE = "valkey.log"

_HOST = "127.0.0.1"
_STOP_S = 5.0
_PORT_ATTEMPTS = 5
_PR_SET_PDEATHSIG = 1


class KeeperError(Exception):
    """The server could not be started; the text is for the owner's error."""


def ask(port: int, password: str, *command: str, timeout_s: float = 1.0) -> str:
    """The one-line reply of a server of ours to a command; empty if it gave none or refused the password."""
    request = b""
    for words in (("AUTH", password), command):
        request += b"*%d\r\n" % len(words)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words)
    reply = b""
    try:
        with socket.create_connection((_HOST, port), timeout=timeout_s) as connection:
            connection.sendall(request)
            while reply.count(b"\r\n") < 2 and (more := connection.recv(256)):
                reply += more
    except OSError:
        return ""
    authenticated, _, answer = reply.partition(b"\r\n")
    return answer.decode(errors="replace").strip() if authenticated == b"+OK" else ""


def answers(port: int, password: str) -> bool:
    """Whether a server that knows the password listens there and has loaded its data."""
    return ask(port, password, "PING") == "+PONG"


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step by one that only its owner can read."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    os.replace(new, path)


def take_server_lock(directory: Path, deadline: float) -> int:
    """Take the lock that says that nobody else writes to the data; returns its descriptor.

    Raises:
        KeeperError: an earlier server still runs at the deadline (monotonic seconds).
    """
    lock = os.open(directory / SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise KeeperError("an earlier server still writes to the data directory") from None
            time.sleep(0.02)


def start_server(
    directory: Path, binary: str, appendfsync: str, lock: int, deadline: float
) -> subprocess.Popen[bytes]:
    """Start the server on its last port, or on a free one, and wait until it has loaded its data."""
    password = _password(directory)
    state = directory / STATE_FILE
    port = _last_port(state)
    for _ in range(_PORT_ATTEMPTS):
        _write_config(directory, port, password, appendfsync)
        server = _spawn(directory, binary, lock)
        while server.poll() is None:
            if answers(port, password):
                write_private(state, json.dumps({"port": port, "pid": server.pid, "keeper": os.getpid()}))
                return server
            if time.monotonic() > deadline:
                server.kill()
                server.wait()
                raise KeeperError("the server did not answer in time")
            time.sleep(0.01)
        if not _port_taken(port):
            break
        port = _free_port()
    raise KeeperError(f"the server ended at once: {_last_log_line(directory)}")


def keep(directory: Path, server: subprocess.Popen[bytes]) -> None:
    """Return when the server has ended, by itself or for want of owners."""

    def stop_without_owners() -> None:
        owners = os.open(directory / OWNERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        # Never released: it keeps new owners out until this process has ended.
        fcntl.lockf(owners, fcntl.LOCK_EX)
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()

    threading.Thread(target=stop_without_owners, daemon=True).start()
    server.wait()


def _password(directory: Path) -> str:
    path = directory / PASSWORD_FILE
    try:
        kept = path.read_text().strip()
    except FileNotFoundError:
        kept = ""
    # Written anew either way, so that its mode is right however it came there.
    password = kept or os.urandom(32).hex()
    write_private(path, password)
    return password


def _last_port(state: Path) -> int:
    try:
        port = int(json.loads(state.read_text())["port"])
    except (OSError, ValueError, KeyError, TypeError):
        port = 0
    # What the file says is no longer true until the new server answers.
    state.unlink(missing_ok=True)
    return port if port and not _port_taken(port) else _free_port()


def _port_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return True
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def _write_config(directory: Path, port: int, password: str, appendfsync: str) -> None:
    lines = (
        f"bind {_HOST}",
        f"port {port}",
        f"requirepass {password}",
        "appendonly yes",
        f"appendfsync {appendfsync}",
        'save ""',
        "maxmemory-policy noeviction",
        "daemonize no",
        # The server refuses to start under a locale that the machine does not have.
        "locale-collate C",
    )
    # In a file, because arguments can be read by every user of the machine.
    write_private(directory / "valkey.conf", "\n".join(lines) + "\n")


def _spawn(directory: Path, binary: str, lock: int) -> subprocess.Popen[bytes]:
    keeper = os.getpid()
    linux = sys.platform == "linux"
    libc = ctypes.CDLL(None)

    def die_with_keeper() -> None:
        if linux:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:
                os._exit(1)

    log = directory / LOG_FILE
    if log.exists():
        os.replace(log, log.with_name(LOG_FILE + ".1"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [binary, str(directory / "valkey.conf")],
            cwd=directory,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            preexec_fn=die_with_keeper,
        )


def _last_log_line(directory: Path) -> str:
    try:
        lines = (directory / LOG_FILE).read_text(errors="replace").splitlines()
    except OSError:
        return "it left no log"
    return next((line for line in reversed(lines) if line.strip()), "it left no log")


def main(directory: Path, binary: str, appendfsync: str, start_s: float) -> int:
    """Run one server from its start to its end; the exit status is 0 when it had become ready."""
    # The owner waits for this process at once, and no owner has to wait for the keeper at its end.
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    # Ctrl-C in the owner's terminal is for the owner, whose workers still need the server while they drain.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    deadline = time.monotonic() + start_s
    try:
        lock = take_server_lock(directory, deadline)
        server = start_server(directory, binary, appendfsync, lock, deadline)
    except (KeeperError, OSError) as error:
        os.write(1, f"{error}\n".encode())
        return 1

    def on_sigterm(number: int, frame: object) -> None:
        server.terminate()

    # Before the owner hears of the server: without it a SIGTERM would end the server by SIGKILL.
    signal.signal(signal.SIGTERM, on_sigterm)
    with contextlib.suppress(BrokenPipeError):
        os.write(1, b"ready\n")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    keep(directory, server)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])))
