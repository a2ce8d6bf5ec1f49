"""How long the cancel of a large tree blocks the store at a time, printed as a table: `make cancelling`.

Nothing is asserted: the figures are this machine's. The server tells how long each chunk of the sweep took
it, and a bystander how long it had to wait for an answer meanwhile.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from retinue.broker.settings import Settings
from retinue.client import SubagentHandle, SubagentLifecycle
from retinue.contract import EventType
from retinue.store.scripts import script
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.servers import PrivateServer
from retinue.testing.workers import WorkerProcess

HERE = Path(__file__).parent
_LIMIT_S = 120.0
_MOST_LOGGED = 10_000
_LOGGED_FROM_US = 300
"""Shorter calls, a bystander's among them, would push the chunks out of the server's log."""


class Bystander:
    """Asks the server again and again, and keeps how long the slowest answer took."""

    def __init__(self, server: PrivateServer) -> None:
        self.longest_s = 0.0
        self._client = server.client()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Bystander:
        self._client.ping()
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._over.is_set():
            before = time.perf_counter()
            self._client.ping()
            self.longest_s = max(self.longest_s, time.perf_counter() - before)


def crowd(stack: ExitStack, server: PrivateServer, count: int) -> tuple[SubagentLifecycle, SubagentHandle]:
    """A tree with so many queued descendants, whose root waits for its model."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    model = stack.enter_context(ScriptedServer())
    model.script("crowd").call("fill", {"count": count}).then("never").hold("for ever")
    limits = {"max_live_children": count, "max_tree_children": count}
    settings = Settings.read(store_url=server.url, **limits)
    lifecycle = stack.enter_context(SubagentLifecycle(session_id="crowd", settings=settings))
    worker = WorkerProcess(
        server.url,
        directory=directory,
        queues=["retinue"],
        settings={"agents": "crowd_agents", **limits},
        model_url=model.base_url,
        import_paths=[HERE],
    )
    stack.callback(worker.close)
    worker.wait_until_ready()
    handle = lifecycle.launch(agent="crowd", goal="fill")
    model.wait_for(lambda server: server.count() == 2, timeout_s=_LIMIT_S)
    return lifecycle, handle


def blocked_ms(client: Any, name: str) -> list[float]:
    """How long each call of a script blocked the server, as it logged them."""
    wanted = script(name).sha.encode()
    entries = client.slowlog_get(_MOST_LOGGED)
    return [entry["duration"] / 1000 for entry in entries if wanted in entry["command"]]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--descendants", type=int, default=3_000, help="how many runs there are below the root"
    )
    count = parser.parse_args().descendants
    with ExitStack() as stack:
        server = stack.enter_context(PrivateServer("valkey"))
        lifecycle, handle = crowd(stack, server, count)
        client: Any = server.client()
        client.config_set("slowlog-max-len", _MOST_LOGGED)
        client.config_set("slowlog-log-slower-than", _LOGGED_FROM_US)
        client.slowlog_reset()
        with Bystander(server) as bystander:
            started = time.perf_counter()
            lifecycle.cancel(handle)
            took_s = time.perf_counter() - started
        chunks = blocked_ms(client, "sweep")
        ended = sum(
            event.type is EventType.RUN_FINISHED and event.run_id != handle.subagent_id
            for event in lifecycle.events(handle)
        )
    print("| measure | figure |\n|---|---|")
    print(f"| descendants ended by the time the cancel returned | {ended:,} of {count:,} |")
    print(f"| time until it returned | {took_s:.2f} s |")
    middle_ms = statistics.median(chunks)
    print(f"| the store blocked at a time: median of {len(chunks)} chunks | {middle_ms:.1f} ms |")
    print(f"| longest | {max(chunks):.1f} ms |")
    print(f"| a bystander's longest wait for an answer | {bystander.longest_s * 1000:.1f} ms |")


if __name__ == "__main__":
    main()
