"""The worker's side of its lease: starts the sidecar, beats for it, hears when the lease is lost.

The lease is the key by which others know that this process lives. While it is not held, the process
must not go on with its runs: others may have taken them over.
"""

import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any
from weakref import WeakSet

from retinue.store import keys
from retinue.store.connections.sentinel_urls import SentinelAddress, parse_store_url
from retinue.store.connections.urls import ServerAddress

_log = logging.getLogger(__name__)
_SIDECAR = Path(__file__).with_name("sidecar.py")
_BEAT_EVERY_S = 1.0
_RESPAWN_FIRST_S = 0.05
_RESPAWN_MAX_S = 1.0
_SILENCE_MIN_S = 5.0
_DISCARD_S = 5.0


class Lease:
    """A process's sign of life, kept by a sidecar process from `start` to `close` or to death.

    Args:
        process_id: The fresh uuid of this start of the worker.
        store_url: The store, as `parse_store_url` reads it.
        lease_seconds: How long the lease lasts without renewal; renewed every quarter of it.
        hang_seconds: How old the heartbeat may get before renewal stops.
        on_lost: Called with the reason (`hang`, `store`, `vanished`, `sidecar`) when the lease is
            no longer held, in an OS thread of the lease's own.
        on_back: Called likewise when it is held again after a loss.

    Raises:
        SettingsError: The URL cannot be read.
    """

    def __init__(
        self,
        process_id: str,
        store_url: str,
        *,
        lease_seconds: float = 5.0,
        hang_seconds: float = 60.0,
        on_lost: Callable[[str], None] | None = None,
        on_back: Callable[[], None] | None = None,
    ) -> None:
        self.process_id = process_id
        self.lost = threading.Event()
        """Set while the lease is not held, also before it first is."""
        self.lost_reason = ""
        """Why it was lost the last time, as given to `on_lost`; empty before that."""
        self.lost.set()
        self._address = parse_store_url(store_url)
        self._lease_s = lease_seconds
        self._hang_s = hang_seconds
        self._on_lost = on_lost
        self._on_back = on_back
        self._held = threading.Event()
        self._held_until = 0.0
        self._was_held = False
        self._sidecar: subprocess.Popen[bytes] | None = None
        self._beats: dict[str, float] = {}
        self._beat_every_s = min(_BEAT_EVERY_S, hang_seconds / 4)
        self._sent_at = 0.0
        self._silence_s = max(2 * lease_seconds, _SILENCE_MIN_S)
        self._closing = threading.Event()
        self._trouble = ""
        # A descriptor must not be closed, and taken for another file, between its look-up and the write.
        self._pipe = threading.Lock()
        self._thread: threading.Thread | None = None
        _all.add(self)

    def set_callbacks(
        self, *, on_lost: Callable[[str], None] | None = None, on_back: Callable[[], None] | None = None
    ) -> None:
        """Replace who is called from now on; what happened before is not told again.

        Args:
            on_lost: As given to the constructor.
            on_back: As given to the constructor.
        """
        self._on_lost, self._on_back = on_lost, on_back

    @property
    def held(self) -> bool:
        """Whether the lease is held at this instant, by the clock; needs no thread to have run."""
        return not self.lost.is_set() and time.monotonic() < self._held_until

    @property
    def sidecar_pid(self) -> int | None:
        """The sidecar's process id; None before `start` and after `close`."""
        return None if self._sidecar is None else self._sidecar.pid

    def start(self) -> None:
        """Start the sidecar. To be called before any user code is imported; returns at once.

        Raises:
            OSError: The sidecar cannot be started.
        """
        self._sidecar = self._spawn()
        self._thread = threading.Thread(target=self._watch, name="retinue-lease", daemon=True)
        self._thread.start()

    def wait_held(self, timeout_s: float) -> bool:
        """Wait until the lease is held.

        Args:
            timeout_s: Seconds.

        Returns:
            Whether it is.
        """
        return self._held.wait(timeout_s)

    def beat(self, source: str = "loop") -> None:
        """Tell that a part of the worker is alive; costs less than a microsecond, nearly always.

        The heart beats only if every source that ever called has called again, so one hung part
        is enough to lose the lease.

        Args:
            source: Which part: the event loop, the hub.
        """
        now = time.monotonic()
        self._beats[source] = now
        if now - self._sent_at < self._beat_every_s or min(list(self._beats.values())) <= self._sent_at:
            return
        self._sent_at = now
        with self._pipe:
            sidecar = self._sidecar
            if sidecar is not None and sidecar.stdin is not None and not sidecar.stdin.closed:
                # A full pipe, or one whose sidecar has just died: the thread sees to that.
                with suppress(OSError):
                    os.write(sidecar.stdin.fileno(), b".")

    def retire(self, source: str) -> None:
        """Stop waiting for beats of a part that ends in good order.

        Args:
            source: As given to `beat`.
        """
        self._beats.pop(source, None)

    def close(self, timeout_s: float = 3.0) -> None:
        """Give the lease up: it is deleted when this returns, if the server answers.

        Args:
            timeout_s: Seconds the sidecar has to delete it.
        """
        self._closing.set()
        sidecar, thread = self._sidecar, self._thread
        if sidecar is None or thread is None:
            return
        self._close_pipe(sidecar.stdin)
        thread.join(timeout_s)
        if thread.is_alive():
            sidecar.kill()
            thread.join(timeout_s)
        self._sidecar = None

    def _spawn(self) -> "subprocess.Popen[bytes]":
        # Isolated, without site: no user code runs in it, and this folder is not on its path. A
        # session of its own: a Ctrl-C or Ctrl-Z at the terminal is meant for the worker.
        sidecar = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SIDECAR)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        assert sidecar.stdin is not None
        try:
            # Far below a pipe's capacity, so this cannot block; in no argument list or environment.
            os.write(sidecar.stdin.fileno(), self._config())
        except BaseException:
            self._discard(sidecar)
            raise
        os.set_blocking(sidecar.stdin.fileno(), False)
        return sidecar

    def _config(self) -> bytes:
        address = self._address
        if isinstance(address, SentinelAddress):
            server = _plain(address.server_at("", 0))
            server["sentinels"] = [_plain(sentinel) for sentinel in address.sentinel_servers]
            server["service"] = address.service
        else:
            server = _plain(address)
        fields = {
            "key": keys.lease(self.process_id),
            "value": f"{socket.gethostname()}:{os.getpid()}",
            "process": self.process_id,
            "election": keys.REAPER,
            "lease_ms": round(self._lease_s * 1000),
            "hang_ms": round(self._hang_s * 1000),
            "expected": self._was_held,
            "worker_pid": os.getpid(),
            "server": server,
        }
        return json.dumps(fields).encode() + b"\n"

    def _watch(self) -> None:
        failures = 0
        while True:
            sidecar = self._sidecar
            if sidecar is not None:
                if self._listen(sidecar):
                    failures = 0
                self._discard(sidecar)
            if self._closing.is_set():
                return
            _log.warning("lease_sidecar_ended process=%s", self.process_id)
            if failures:
                self._closing.wait(min(_RESPAWN_FIRST_S * 2**failures, _RESPAWN_MAX_S))
            failures = min(failures + 1, 10)
            self._lose_by_clock()
            try:
                self._sidecar = self._spawn()
            except OSError as error:
                self._sidecar = None
                _log.error("lease_sidecar_failed process=%s error=%s", self.process_id, error)
            if self._closing.is_set() and self._sidecar is not None:
                self._discard(self._sidecar)
                return

    def _listen(self, sidecar: "subprocess.Popen[bytes]") -> bool:
        """Hear one sidecar out, to its end; tells whether it ever held the lease."""
        assert sidecar.stdout is not None
        poll = select.poll()
        poll.register(sidecar.stdout, select.POLLIN)
        buffered, held, heard_at = b"", False, time.monotonic()
        while True:
            # Reports first, the clock after: what a frozen worker has not read yet may tell of a renewal.
            if poll.poll(max(self._next_deadline(heard_at) - time.monotonic(), 0) * 1000 + 1):
                data = os.read(sidecar.stdout.fileno(), 65536)
                if not data:
                    return held
                *lines, buffered = (buffered + data).split(b"\n")
                for line in lines:
                    held = self._take(line.decode()) or held
                heard_at = time.monotonic()
                continue
            self._lose_by_clock()
            if time.monotonic() - heard_at >= self._silence_s:
                # It reports even what it cannot do: it is frozen, or worse. The next one takes over.
                _log.warning("lease_sidecar_silent process=%s", self.process_id)
                sidecar.kill()

    def _next_deadline(self, heard_at: float) -> float:
        silent_at = heard_at + self._silence_s
        return min(silent_at, self._held_until) if self._held.is_set() else silent_at

    def _take(self, report: str) -> bool:
        """Act on one line of the sidecar; tells whether the lease is held."""
        word, _, rest = report.partition(" ")
        if word == "held":
            self._hold_until(float(rest) + self._lease_s)
            return True
        if word == "vanished":
            self._lose(self._trouble or "vanished")
        else:
            # Whether it is lost yet is the clock's to say, once all reports are read.
            self._trouble = rest
        return False

    def _hold_until(self, moment: float) -> None:
        first, self._was_held = not self._was_held, True
        self._held_until = moment
        self._trouble = ""
        if moment > time.monotonic() and not self._held.is_set():
            self.lost.clear()
            self._held.set()
            _log.info("lease_held process=%s", self.process_id)
            if not first:
                self._call(self._on_back)

    def _lose_by_clock(self) -> None:
        if time.monotonic() >= self._held_until:
            self._lose(self._trouble or "sidecar")

    def _lose(self, reason: str) -> None:
        if not self._held.is_set():
            return
        self._held.clear()
        self.lost_reason = reason
        self.lost.set()
        _log.warning("lease_lost process=%s reason=%s", self.process_id, reason)
        self._call(self._on_lost, reason)

    def _call(self, callback: Callable[..., None] | None, *arguments: str) -> None:
        if callback is None:
            return
        try:
            callback(*arguments)
        except Exception:
            # The lease must be watched on, whatever the listener does.
            _log.exception("lease_listener_failed process=%s", self.process_id)

    def _discard(self, sidecar: "subprocess.Popen[bytes]") -> None:
        """Close the pipes to a sidecar, and wait for its end, which that brings about."""
        self._close_pipe(sidecar.stdin)
        self._close_pipe(sidecar.stdout)
        try:
            sidecar.wait(_DISCARD_S)
        except subprocess.TimeoutExpired:
            sidecar.kill()
            sidecar.wait()

    def _close_pipe(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None:
            with self._pipe, suppress(OSError):
                pipe.close()

    def _leave_to_parent(self) -> None:
        """In a forked child: close the pipes, so that they end with the worker, and never beat."""
        self._pipe = threading.Lock()
        sidecar, self._sidecar = self._sidecar, None
        if sidecar is not None:
            self._close_pipe(sidecar.stdin)
            self._close_pipe(sidecar.stdout)
            sidecar.returncode = 0  # not the child's to wait for


def _plain(address: ServerAddress) -> dict[str, Any]:
    """An address as the sidecar reads it, which runs in a directory of its own."""
    server = asdict(address)
    del server["options"]  # for libraries that take a URL
    if server["path"] is not None:
        server["path"] = os.path.abspath(server["path"])
    if server["tls"] is not None:
        for name in ("ca_file", "cert_file", "key_file"):
            if server["tls"][name] is not None:
                server["tls"][name] = os.path.abspath(server["tls"][name])
    return server


_all: WeakSet[Lease] = WeakSet()


def _after_fork() -> None:
    for lease in list(_all):
        lease._leave_to_parent()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_after_fork)
