"""A real Flower beside a real worker: what it shows, and that its buttons reach the run."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.celery_rig import Rig

from retinue.contract.ids import task_id
from retinue.testing.servers import PrivateServer


@pytest.fixture
def rig(valkey_server: PrivateServer, tmp_path: Path) -> Iterator[Rig]:
    valkey_server.flush()
    with ExitStack() as stack:
        yield Rig(valkey_server, tmp_path, stack)


class Flower:
    def __init__(self, rig: Rig) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}/api"
        self._rig = rig
        process = rig.celery(
            "flower", "--address=127.0.0.1", f"--port={port}", FLOWER_UNAUTHENTICATED_API="true"
        )
        process.wait_for_log("Visit me at")

    def ask(self, path: str, *, post: bool = False) -> Any:
        request = urllib.request.Request(self._url + path, data=b"" if post else None)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def wait_for_state(self, uuid: str, state: str) -> Any:
        self._rig.wait_until(
            lambda: self.ask("/tasks").get(uuid, {}).get("state") == state, f"{uuid} {state} in Flower"
        )
        return self.ask("/tasks")[uuid]


def test_flower_shows_runs_and_its_terminate_button_cancels_one(rig: Rig) -> None:
    flower = Flower(rig)
    rig.worker("-c", "5")
    quick, held = rig.wakeup(), rig.wakeup("hold")
    # Flower subscribes when its first request for workers has been answered.
    rig.wait_until(lambda: bool(flower.ask("/workers?refresh=true")), "the worker in Flower")
    rig.send(quick, held)
    rig.wait_for_count("started", 2)

    shown = flower.wait_for_state(task_id(quick.run_id, 1), "SUCCESS")
    flower.wait_for_state(task_id(held.run_id, 1), "STARTED")
    flower.ask(f"/task/revoke/{task_id(held.run_id, 1)}?terminate=true", post=True)
    revoked = flower.wait_for_state(task_id(held.run_id, 1), "REVOKED")

    assert (shown["name"], shown["args"]) == ("researcher", quick.run_id)
    assert (revoked["name"], revoked["args"]) == ("researcher", held.run_id)
    assert rig.list("revoked") == [f"{held.run_id} terminate"]
    queues = flower.ask("/queues/length")["active_queues"]
    assert {"name": "retinue", "messages": 0} in queues
