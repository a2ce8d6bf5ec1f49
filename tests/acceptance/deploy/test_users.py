"""The shipped users of the server, each in its own processes: they can do their work, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import redis
from tests.acceptance.http.http_rig import ALL_SCOPES, ApiProcess, HttpRig
from tests.acceptance.run_rig import DEADLINE_S, RunRig
from tests.acceptance.test_flower import Flower
from tests.acceptance.tree_script import answer, script_tree

from retinue.broker.settings import Settings
from retinue.client import SubagentLifecycle, SubagentState
from retinue.store import keys
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

ACL_FILE = Path(__file__).parents[3] / "deploy" / "users.acl"
USERS = ("retinue-client", "retinue-worker", "retinue-web", "retinue-flower", "retinue-operator")
PASSWORD = "of-the-test"
FOREIGN = (
    "FLUSHALL",
    "KEYS *",
    "CONFIG SET appendonly no",
    "CONFIG GET requirepass",
    "ACL LIST",
    "SHUTDOWN",
    "SCRIPT FLUSH",
    "CLIENT LIST",
    "REPLICAOF NO ONE",
    "FUNCTION LIST",
    "DBSIZE",
    "RANDOMKEY",
    "SET shop:cart 1",
    "GET shop:cart",
    "PUBLISH shop 1",
)
OTHERS = {
    "retinue-client": (
        f"HGETALL {keys.API_KEYS}",
        f"SMEMBERS {keys.WEBHOOKS}tenants",
        f"SET {keys.lease('x')} 1",
        f"DEL {keys.REAPER}",
        f"SET {keys.drain('x')} 1",
        f"HSET {keys.CATALOGUE} agent:x 1",
    ),
    "retinue-worker": (f"HGETALL {keys.API_KEYS}", f"SMEMBERS {keys.WEBHOOKS}tenants"),
    "retinue-web": (
        f"HSET {keys.API_KEYS} x 1",
        f"SET {keys.lease('x')} 1",
        f"DEL {keys.REAPER}",
        f"HDEL {keys.WORKERS} x",
    ),
    "retinue-flower": (
        f"HGETALL {keys.KEYRING}",
        "HGETALL retinue:_:{p00}:run:x",
        "LPUSH retinue x",
        "SUBSCRIBE retinue:{p00}:wake",
        "GET retinue:_:{p00}:run:x:req",
    ),
}
_AGENTS = Path(__file__).parents[1]


class Users:
    """A server that has the users of the shipped file, each with a password.

    Args:
        server: Whose default user may do all.
    """

    def __init__(self, server: PrivateServer) -> None:
        self.server = server
        self.admin = server.client(decode_responses=True)
        for line in ACL_FILE.read_text().splitlines():
            if line.startswith("user "):
                self.admin.execute_command("ACL", "SETUSER", *line.split()[1:])
        for user in USERS:
            self.admin.execute_command("ACL", "SETUSER", user, f">{PASSWORD}")

    def url(self, user: str) -> str:
        """The store's address for one of the users."""
        return self.server.url.replace("redis://", f"redis://{user}:{PASSWORD}@", 1)

    def client(self, user: str) -> redis.Redis:
        """A plain connection as one of the users."""
        return redis.Redis.from_url(self.url(user), decode_responses=True, protocol=2)

    def refused(self) -> list[str]:
        """What the server refused since the last look: user, and the command or key that it had no right to.

        But for a look at the server's configuration, which processes can do without.
        """
        found = self.admin.execute_command("ACL", "LOG")
        self.admin.execute_command("ACL", "LOG", "RESET")
        told = [f"{each['username']}: {each['reason']} {each['object']}" for each in found]
        return [each for each in told if not each.endswith("command config|get")]


@pytest.fixture(scope="module")
def users(store_server: PrivateServer) -> Iterator[Users]:
    with PrivateServer(store_server.kind) as server:
        yield Users(server)


@pytest.fixture(scope="module")
def rig(users: Users, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRig]:
    """Two workers as the user of workers."""
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedServer(latency_s=0.02))
        script_tree(model)
        directory = tmp_path_factory.mktemp("users")
        for number in (1, 2):
            worker = WorkerProcess(
                users.url("retinue-worker"),
                directory=directory,
                name=f"worker{number}",
                settings={"agents": "tree_agents", "lease_seconds": 1.0},
                model_url=model.base_url,
                import_paths=[_AGENTS],
            )
            stack.callback(worker.close)
            worker.wait_until_ready(DEADLINE_S)
        yield RunRig(users.server, model, directory, stack, agents="tree_agents")


@pytest.fixture
def nothing_refused(users: Users) -> Iterator[None]:
    """What the processes do within a test, they may do."""
    users.refused()
    yield
    assert users.refused() == []


@pytest.mark.usefixtures("nothing_refused")
def test_an_application_launches_and_controls_with_the_rights_of_a_client(users: Users, rig: RunRig) -> None:
    settings = Settings.read(store_url=users.url("retinue-client"))
    with SubagentLifecycle(session_id="users", settings=settings) as lifecycle:
        handle = lifecycle.launch(agent="level2", goal="tree", correlation_id="once")
        assert lifecycle.wait(handle, DEADLINE_S).state is SubagentState.SUCCEEDED
        assert lifecycle.result(handle).summary == answer("tree", 2)
        assert list(lifecycle.events(handle))
        assert len(lifecycle.tree(handle)) == 13
        assert lifecycle.list()
        other = lifecycle.launch(agent="level0", goal="to be cancelled")
        assert lifecycle.steer(other, "go on")
        assert lifecycle.cancel(other, "enough").accepted
        assert lifecycle.wait(other, DEADLINE_S).completed
        assert not lifecycle.interrupt(other).accepted
        assert lifecycle.pending(other) == ()
        assert lifecycle.purge(other).purged
        assert lifecycle.dead_letters() == ()


@pytest.mark.usefixtures("nothing_refused")
def test_the_http_api_works_with_the_rights_of_the_web(users: Users, rig: RunRig) -> None:
    with ExitStack() as stack:
        web = HttpRig(rig, rig.trace("."), stack)
        key = web.key(scopes=ALL_SCOPES)
        api: ApiProcess = web.api(store_url=users.url("retinue-web"))
        http = web.http(key, api=api)
        launched = http.post(
            "/v1/runs",
            json={"session_id": "web", "agent": "level3", "goal": "web"},
            headers={"Idempotency-Key": "one"},
        )
        assert launched.status_code == 201
        run = launched.json()["run_id"]
        assert http.get(f"/v1/runs/{run}/wait").json()["state"] == "SUCCEEDED"
        for path in ("", "/tree", "/result", "/events", "/messages", "/pending"):
            assert http.get(f"/v1/runs/{run}{path}").status_code == 200, path
        for path in ("live", "agents", "toolsets", "workers", "queues", "dead-letters", "webhooks", "whoami"):
            assert http.get(f"/v1/{path}").status_code == 200, path
        assert http.post(f"/v1/runs/{run}/cancel", json={}).json()["already_terminal"]
        rig.wait_until(lambda: http.get("/readyz").status_code == 200, "it is ready")


@pytest.mark.usefixtures("nothing_refused")
def test_flower_shows_workers_with_rights_to_no_run(users: Users, rig: RunRig, tmp_path: Path) -> None:
    with ExitStack() as stack:
        flower = Flower(users.url("retinue-flower"), tmp_path, stack)
        rig.wait_until(
            lambda: "worker1@" in flower.ask("/api/workers?refresh=1")[1], "Flower sees the workers"
        )
        assert flower.ask("/tasks")[0] == 200
        assert flower.ask("/broker")[0] == 200


@pytest.mark.parametrize("user", USERS)
def test_no_user_may_touch_the_server_or_what_is_not_retinues(users: Users, user: str) -> None:
    assert allowed(users, user, FOREIGN) == []


@pytest.mark.parametrize("user", OTHERS)
def test_each_user_has_the_rights_of_its_part_alone(users: Users, user: str) -> None:
    assert allowed(users, user, OTHERS[user]) == []


def allowed(users: Users, user: str, commands: Sequence[str]) -> list[str]:
    """Those of the commands that a user has the right to."""
    found: list[str] = []
    with users.client(user) as client:
        for command in commands:
            with suppress(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
                found.append(command)
    return found


def test_nobody_can_log_in_as_the_file_stands(users: Users) -> None:
    found = [line for line in ACL_FILE.read_text().splitlines() if line.startswith("user ")]

    assert [line.split()[1] for line in found] == list(USERS)
    assert not [line for line in found if "nopass" in line or ">" in line or "#" in line]
