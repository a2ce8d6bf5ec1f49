"""The lease against real servers and a real worker-like process: kills, freezes, outages, forks."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from retinue.store import keys
from retinue.testing.processes import ChildProcess
from retinue.testing.servers import PrivateServer
from retinue.worker.process.lease import Lease

WORKER = """
import json, os, re, subprocess, sys, threading, time
from retinue.worker.process.lease import Lease

url, process_id, lease_s, hang_s, then = sys.argv[1:]

def say(text):  # two threads do: a line must leave in one piece
    os.write(1, f"{text}\\n".encode())

lease = Lease(process_id, url, lease_seconds=float(lease_s), hang_seconds=float(hang_s),
              on_lost=lambda why: say(f"lost {why}"), on_back=lambda: say("back"))
lease.start()
assert lease.wait_held(30)

def beat():
    while True:
        lease.beat()
        time.sleep(0.02)

threading.Thread(target=beat, daemon=True).start()
say(f"ready {lease.sidecar_pid}")
exec(then)
time.sleep(600)
"""


@pytest.fixture
def client(valkey_server: PrivateServer) -> redis.Redis:
    return valkey_server.client(decode_responses=True)


class Worker:
    """A process that holds a lease and does what its last argument says."""

    def __init__(
        self, url: str, log: Path, *, lease_s: float = 2.5, hang_s: float = 30.0, then: str = ""
    ) -> None:
        self.process_id = uuid.uuid4().hex
        self.key = keys.lease(self.process_id)
        arguments = [url, self.process_id, str(lease_s), str(hang_s), textwrap.dedent(then)]
        self.process = ChildProcess([sys.executable, "-c", WORKER, *arguments], log=log)
        self.sidecar_pid = int(self.process.wait_for_log(r"^ready (\d+)$").group(1))

    def lines(self) -> list[str]:
        return re.findall(r"^(?:lost \w+|back)$", self.process.log_text(), re.MULTILINE)

    def close(self) -> None:
        self.process.close()
        until(lambda: not alive(self.sidecar_pid))


@pytest.fixture
def worker(valkey_url: str, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(url: str = valkey_url, **options: object) -> Worker:
        started.append(Worker(url, tmp_path / "worker.log", **options))  # pyright: ignore
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def lease(valkey_url: str) -> Iterator[Lease]:
    made = Lease(uuid.uuid4().hex, valkey_url, lease_seconds=3, hang_seconds=30)
    made.start()
    assert made.wait_held(30)
    yield made
    made.close()


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> float:
    """Wait for a condition; tells how many seconds it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_s, "did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - started


def throughout(condition: Callable[[], object], seconds: float) -> None:
    """Check a condition all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition()
        time.sleep(0.005)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_lease_is_held_from_start_to_close_and_then_deleted(lease: Lease, client: redis.Redis):
    key = keys.lease(lease.process_id)
    assert lease.held
    assert not lease.lost.is_set()
    ttl_ms = client.pttl(key)
    assert 0 < ttl_ms <= 3000
    assert str(os.getpid()) in (client.get(key) or "")
    throughout(lambda: client.exists(key), 4)
    pid = lease.sidecar_pid
    lease.close()
    assert not client.exists(key)
    assert pid is not None
    assert not alive(pid)


def test_a_lease_is_not_held_before_the_server_has_it():
    with PrivateServer() as server:
        server.stop()
        lease = Lease("p", server.url, lease_seconds=0.5)
        lease.start()
        assert not lease.wait_held(1)
        assert lease.lost.wait(30)
        assert not lease.held
        server.start()
        assert lease.wait_held(30)
        assert server.client().exists(keys.lease("p"))
        lease.close()


def test_the_sidecar_shows_no_credentials_and_imports_nothing_of_ours():
    with PrivateServer(password="hunter2") as server:
        lease = Lease("p", server.url)
        lease.start()
        assert lease.wait_held(30)
        process = Path(f"/proc/{lease.sidecar_pid}")
        assert b"hunter2" not in (process / "cmdline").read_bytes()
        assert b"hunter2" not in (process / "environ").read_bytes()
        resident_kib = int(re.findall(r"VmRSS:\s+(\d+)", (process / "status").read_text())[0])
        assert resident_kib < 20_000
        lease.close()


@pytest.mark.parametrize("where", ["tcp", "unix"])
@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_the_sidecar_uses_password_database_and_unix_socket(kind: str, where: str):
    with PrivateServer(kind, password="s/ec@ret", unix_socket=True) as server:
        url = server.url.replace("/0", "/3") if where == "tcp" else server.unix_url.replace("db=0", "db=3")
        lease = Lease("p", url)
        lease.start()
        assert lease.wait_held(30)
        assert server.client(db=3).exists(keys.lease("p"))
        lease.close()
        assert not server.client(db=3).exists(keys.lease("p"))


def test_a_killed_worker_drops_its_lease_at_once(worker: Callable[..., Worker], client: redis.Redis):
    one = worker(lease_s=60)
    assert client.exists(one.key)
    one.process.kill()
    assert until(lambda: not client.exists(one.key)) < 20
    until(lambda: not alive(one.sidecar_pid))


@pytest.mark.parametrize("elected", [True, False])
def test_a_killed_worker_that_was_the_elected_reaper_leaves_its_place_at_once(
    worker: Callable[..., Worker], client: redis.Redis, elected: bool
):
    lost = worker()
    holder = lost.process_id if elected else "another"
    client.set(keys.REAPER, holder, px=60_000)
    lost.process.kill()
    # The lease goes first: once the sidecar has ended, both are done.
    until(lambda: not alive(lost.sidecar_pid))
    assert client.exists(lost.key) == 0
    assert client.get(keys.REAPER) == (None if elected else "another")
    client.delete(keys.REAPER)


def test_processes_that_outlive_the_worker_do_not_hold_its_lease(
    worker: Callable[..., Worker], client: redis.Redis
):
    one = worker(
        lease_s=60,
        then="""
        started = subprocess.Popen(["sleep", "30"], close_fds=False, start_new_session=True)
        forked = os.fork()
        if forked == 0:
            os.setsid()
            lease.beat()
            time.sleep(30)
            os._exit(0)
        say(f"children {started.pid} {forked}")
        """,
    )
    match = one.process.wait_for_log(r"^children (\d+) (\d+)$")
    children = [int(pid) for pid in match.groups()]
    try:
        one.process.kill()
        assert until(lambda: not client.exists(one.key)) < 20
        assert all(map(alive, children))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def test_the_beats_of_a_forked_child_do_not_count_for_a_frozen_worker(
    worker: Callable[..., Worker], client: redis.Redis
):
    one = worker(
        lease_s=0.8,
        hang_s=1.2,
        then="""
        if (forked := os.fork()) == 0:
            os.setsid()
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                lease.beat()
                time.sleep(0.02)
            os._exit(0)
        say(f"child {forked}")
        """,
    )
    child = int(one.process.wait_for_log(r"^child (\d+)$").group(1))
    try:
        one.process.pause()
        until(lambda: not client.exists(one.key))
        assert alive(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_ends_does_not_end_the_lease(worker: Callable[..., Worker], client: redis.Redis):
    one = worker(
        then="""
        for _ in range(3):
            if (forked := os.fork()) == 0:
                sys.exit(0)
            os.waitpid(forked, 0)
        say("forked")
        """
    )
    one.process.wait_for_log("^forked$")
    throughout(lambda: client.exists(one.key), 3)
    assert alive(one.sidecar_pid)
    assert one.lines() == []


def test_a_worker_frozen_longer_than_hang_seconds_loses_its_lease_and_learns_it(
    worker: Callable[..., Worker], client: redis.Redis
):
    one = worker(lease_s=2.0, hang_s=4.0)
    one.process.pause()
    took_s = until(lambda: not client.exists(one.key))
    assert took_s > 3  # a lease that the freeze itself ended would be gone in 2
    one.process.resume()
    one.process.wait_for_log("^back$")
    assert one.lines() == ["lost hang", "back"]
    throughout(lambda: client.exists(one.key), 2.5)


def test_a_worker_frozen_for_less_than_hang_seconds_keeps_its_lease(
    worker: Callable[..., Worker], client: redis.Redis
):
    one = worker(lease_s=2.0, hang_s=60)
    one.process.pause()
    throughout(lambda: client.exists(one.key), 3.5)
    one.process.resume()
    throughout(lambda: client.exists(one.key), 1)
    assert one.lines() == []


def test_code_that_holds_the_gil_for_less_than_hang_seconds_keeps_the_lease(
    worker: Callable[..., Worker], client: redis.Redis
):
    one = worker(
        lease_s=2.0,
        hang_s=100,
        then="""
        for length in range(24, 45):
            started = time.monotonic()
            re.match("(a|aa)+$", "a" * length + "b")
            held_s = time.monotonic() - started
            if held_s > 2.2:
                break
        say(f"done {held_s}")
        """,
    )
    deadline = time.monotonic() + 60
    while not (match := re.search(r"^done ([\d.]+)$", one.process.log_text(), re.MULTILINE)):
        assert client.exists(one.key)
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert float(match.group(1)) > 2.2
    throughout(lambda: client.exists(one.key), 1)
    assert one.lines() == []


def test_a_killed_sidecar_is_replaced_before_the_lease_runs_out(lease: Lease, client: redis.Redis):
    key = keys.lease(lease.process_id)
    for _ in range(2):
        pid = lease.sidecar_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        throughout(lambda: client.exists(key) and lease.held, 3.3)
        assert lease.sidecar_pid != pid


def test_a_frozen_sidecar_costs_the_lease_and_is_replaced(
    valkey_url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("retinue.worker.process.lease._SILENCE_MIN_S", 1.0)
    reasons: list[str] = []
    back = threading.Event()
    lease = Lease("p", valkey_url, lease_seconds=2, on_lost=reasons.append, on_back=back.set)
    lease.start()
    assert lease.wait_held(30)
    pid = lease.sidecar_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    assert lease.lost.wait(30)
    assert not lease.held
    assert back.wait(30)
    assert not alive(pid)
    # By the clock first; the replacement then found it expired, which is the same loss.
    assert reasons == ["sidecar"]
    assert client.exists(keys.lease("p"))
    lease.close()


def test_signals_meant_for_the_worker_leave_the_sidecar_alone(lease: Lease, client: redis.Redis):
    pid = lease.sidecar_pid
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(pid, number)
    throughout(lambda: client.exists(keys.lease(lease.process_id)), 1)
    assert lease.sidecar_pid == pid


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_an_outage_longer_than_the_lease_is_told_and_so_is_its_end(kind: str):
    with PrivateServer(kind, appendonly=True) as server:
        reasons: list[str] = []
        back = threading.Event()
        lease = Lease("p", server.url, lease_seconds=2, on_lost=reasons.append, on_back=back.set)
        lease.start()
        assert lease.wait_held(30)
        for lost in (server.stop, server.kill, server.pause):
            back.clear()
            lost()
            assert lease.lost.wait(30)
            assert not lease.held
            if lost == server.pause:
                server.resume()
            else:
                server.start()
            assert back.wait(30)
            assert lease.held
            assert server.client().exists(keys.lease("p"))
        assert reasons == ["store"] * 3
        lease.close()


def test_an_outage_shorter_than_the_lease_goes_unnoticed():
    with PrivateServer(appendonly=True) as server:
        reasons: list[str] = []
        lease = Lease("p", server.url, lease_seconds=20, on_lost=reasons.append)
        lease.start()
        assert lease.wait_held(30)
        server.restart()
        client, key = server.client(), keys.lease("p")
        left_ms = client.pttl(key)
        assert left_ms > 0
        until(lambda: client.pttl(key) > left_ms)  # it is renewed again
        assert lease.held
        assert reasons == []
        lease.close()


def test_a_lease_that_vanished_is_told_and_taken_again(valkey_url: str, client: redis.Redis):
    reasons: list[str] = []
    back = threading.Event()
    lease = Lease("p", valkey_url, lease_seconds=3)
    lease.start()
    assert lease.wait_held(30)
    lease.set_callbacks(on_lost=reasons.append, on_back=back.set)
    client.delete(keys.lease("p"))
    assert back.wait(30)  # for the first time: the first taking of a lease is no return
    assert reasons == ["vanished"]
    assert client.exists(keys.lease("p"))
    lease.close()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_at_the_memory_limit_a_lease_is_renewed_taken_and_dropped(kind: str):
    with PrivateServer(kind) as server:
        client = server.client()
        lease = Lease("p", server.url, lease_seconds=2)
        lease.start()
        assert lease.wait_held(30)
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("k", "v")
        throughout(lambda: client.exists(keys.lease("p")) and lease.held, 3)
        client.delete(keys.lease("p"))
        until(lambda: client.exists(keys.lease("p")))
        lease.close()
        assert not client.exists(keys.lease("p"))


def test_every_part_of_the_worker_must_beat_until_it_is_retired(valkey_url: str):
    lease = Lease("p", valkey_url, lease_seconds=1.5, hang_seconds=2)
    lease.start()
    assert lease.wait_held(30)

    def both_beat() -> bool:
        lease.beat("loop")
        lease.beat("hub")
        return lease.held

    def loop_beats() -> bool:
        lease.beat("loop")
        return lease.held

    until(both_beat)
    throughout(both_beat, 3)
    until(lambda: not loop_beats())
    lease.retire("hub")
    until(loop_beats)
    throughout(loop_beats, 3)
    lease.close()


def test_a_listener_that_fails_does_not_end_the_watching(valkey_url: str, client: redis.Redis):
    def fail(why: str) -> None:
        raise RuntimeError(why)

    lease = Lease("p", valkey_url, lease_seconds=2, on_lost=fail)
    lease.start()
    assert lease.wait_held(30)
    for _ in range(2):
        client.delete(keys.lease("p"))
        until(lambda: client.exists(keys.lease("p")))
    throughout(lambda: client.exists(keys.lease("p")), 1)
    lease.close()


def test_closing_while_the_server_hangs_is_bounded():
    with PrivateServer() as server:
        lease = Lease("p", server.url, lease_seconds=1)
        lease.start()
        assert lease.wait_held(30)
        server.pause()
        started = time.monotonic()
        lease.close(timeout_s=1)
        assert time.monotonic() - started < 20
        server.resume()


def test_the_sidecar_alone_ends_when_it_is_given_nothing():
    sidecar = Path(sys.modules[Lease.__module__].__file__ or "").with_name("sidecar.py")
    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(sidecar)], input=b"", capture_output=True, timeout=30
    )
    assert ended.returncode == 0
    assert ended.stdout + ended.stderr == b""
