"""What the store's tests play on: one tenant on a real server, through a store of either colour."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import redis
from tests.integration.store.attempt import Attempt
from tests.integration.store.audit import Dump, audit, dump

from retinue.contract import Event, SubagentState, child_run_id, new_run_id, partition_of
from retinue.store import keys
from retinue.store.call import CommandCall, RunKey, ScriptCall
from retinue.store.connections.link import AsyncLink
from retinue.store.connections.sync_link import SyncLink
from retinue.store.operations import control, launching, reading, running
from retinue.store.operations.launching import Launched, NewRun, Parent, Rounds
from retinue.store.operations.reading import RunResult, RunView
from retinue.store.replies import Claimed, Ended, Suspended
from retinue.store.store import AsyncStore, Store

T = TypeVar("T")
CAPABLE = running.capability(["support", "researcher"], ["antique"])
_numbers = itertools.count(1)


class SyncRunner:
    """Runs calls over the synchronous store."""

    def __init__(self, url: str) -> None:
        self._link = SyncLink(url)
        self._store = Store(self._link)

    def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        return self._store.run(call)

    def close(self) -> None:
        self._link.close()


class AsyncRunner:
    """Runs calls over the asynchronous store, on an event loop in an OS thread of its own."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._link = AsyncLink(url)
        self._store = AsyncStore(self._link)

    def run(self, call: ScriptCall[T] | CommandCall[T]) -> T:
        return asyncio.run_coroutine_threadsafe(self._store.run(call), self._loop).result(30)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._link.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


Runner = SyncRunner | AsyncRunner


class Stage:
    """A tenant of its own and one session, so that tests share a server without flushing it.

    Args:
        runner: The store under test.
        server: The same server by redis-py, to look behind the store's back.
    """

    def __init__(self, runner: Runner, server: redis.Redis) -> None:
        self.server = cast(Any, server)  # redis-py types each reply as perhaps awaitable
        self.tenant = f"t{next(_numbers)}-{secrets.token_hex(4)}"
        self.session = "customer-42"
        self.partition = partition_of(self.tenant, self.session)
        self.run: Callable[..., Any] = runner.run

    # What a client does.

    def new_run(self, run_id: str | None = None, **changes: Any) -> NewRun:
        """A request with defaults; `changes` are fields of `NewRun`."""
        run_id = run_id or new_run_id(self.partition)
        agent = changes.get("agent", "support")
        plain = NewRun(
            run_id=run_id,
            digest="d" * 64,
            request_json='{"goal":"g"}',
            agent=agent,
            agent_json=json.dumps(agent),
            queue="retinue",
            priority=6,
            correlation=None,
            return_duplicate=False,
            slot=None,
            slot_tool="",
            timeout_ms=0,
            max_iterations=50,
            thread_id=run_id,
            thread_ttl_s=7000,
            first_message='{"role":"user","content":"hi"}',
            abandon=False,
            max_live_children=20,
            max_depth=4,
            grant_json=None,
            result_ttl_s=3600,
        )
        return replace(plain, **changes)

    def launch_call(
        self,
        *runs: NewRun,
        parent: Parent | None = None,
        rounds: Rounds | None = None,
        max_tree_children: int = 1000,
    ) -> ScriptCall[launching.LaunchReply]:
        return launching.launch(
            self.tenant,
            self.session,
            runs,
            parent=parent,
            rounds=rounds,
            max_tree_children=max_tree_children,
            session_ttl_s=9000,
        )

    def launch(self, *runs: NewRun, **how: Any) -> Any:
        """`how`: as for `launch_call`."""
        return self.run(self.launch_call(*runs, **how))

    def key(self, run_id: str) -> RunKey:
        return RunKey(self.tenant, run_id)

    def root(self, *, max_tree_children: int = 1000, **changes: Any) -> RunKey:
        """A new root run."""
        new = self.new_run(**changes)
        launched = self.launch(new, max_tree_children=max_tree_children)
        assert isinstance(launched, Launched), launched
        return self.key(new.run_id)

    def new_child(self, parent: Attempt, index: int = 0, **changes: Any) -> NewRun:
        """A child that answers the parent's call `index`."""
        iteration = self.record(parent.run).recorded_iteration
        changes = {"slot": f"{iteration}:{index}", "slot_tool": "run_agent", "agent": "researcher"} | changes
        return self.new_run(child_run_id(parent.run.run_id, iteration, index, 0), **changes)

    def child(self, parent: Attempt, index: int = 0, **changes: Any) -> RunKey:
        """Launches a child for the parent's call `index`."""
        new = self.new_child(parent, index, **changes)
        iteration = self.record(parent.run).recorded_iteration if new.slot else None
        launched = self.launch(new, parent=parent.as_parent(iteration))
        assert isinstance(launched, Launched), launched
        return self.key(new.run_id)

    def cancel(self, run: RunKey) -> control.CancelReply:
        return self.run(control.cancel(run, reason="enough"))

    def interrupt(self, run: RunKey) -> control.InterruptReply:
        return self.run(control.interrupt(run, reason="enough"))

    def sweep(self, run: RunKey) -> list[control.Swept]:
        """All chunks of a sweep."""
        chunks = [self.run(control.sweep(run))]
        while chunks[-1].cursor:
            chunks.append(self.run(control.sweep(run, cursor=chunks[-1].cursor)))
        return chunks

    def steer(self, run: RunKey, message: str = "Germany", steer_id: str | None = None) -> control.SteerReply:
        steer_id = steer_id or secrets.token_hex(8)
        return self.run(control.steer(run, steer_id=steer_id, message=message, max_steers=1000))

    # What a worker does.

    def claim_call(
        self,
        run: RunKey,
        *,
        process: str = "p1",
        token: str | None = None,
        capable: str = CAPABLE,
        alone: bool = True,
    ) -> ScriptCall[Any]:
        return running.claim(
            run,
            token=token or secrets.token_hex(8),
            process=self.process(process),
            capable=capable,
            alone=alone,
        )

    def claim(self, run: RunKey, *, process: str = "p1") -> Attempt:
        """Claims a run, which must succeed."""
        call = self.claim_call(run, process=process)
        claimed = self.run(call)
        assert isinstance(claimed, Claimed), claimed
        return Attempt(self, run, claimed)

    def give_up(self, run: RunKey, *, claims: int = 3) -> Ended:
        """Loses so many processes with a run, the last of which ends it."""
        for _ in range(claims):
            self.claim(run)
            process = self.process("p1")
            call = running.take_over(run, process=process, dead=True, losses_before_end=claims)
            ended = self.run(call)
        assert isinstance(ended, Ended), ended
        return ended

    def process(self, name: str) -> str:
        """A process id that no other test uses."""
        return f"{self.tenant}-{name}"

    def asking(self, run: RunKey, *, process: str = "p1") -> Attempt:
        """Claims a run and passes its boundary."""
        attempt = self.claim(run, process=process)
        attempt.go()
        return attempt

    def calling(self, run: RunKey, *tools: str, process: str = "p1") -> Attempt:
        """Claims a run and lets its model call tools."""
        attempt = self.asking(run, process=process)
        self.run(attempt.model(tools=tools or ("run_agent",)))
        return attempt

    def waiting(self, run: RunKey, children: int = 1, **changes: Any) -> tuple[Attempt, list[RunKey]]:
        """Claims a run and suspends it until so many children have ended."""
        attempt = self.calling(run, *["run_agent"] * children)
        launched = [self.child(attempt, index, **changes) for index in range(children)]
        suspended = self.run(attempt.suspend(launched))
        assert isinstance(suspended, Suspended), suspended
        return attempt, launched

    def end(self, run: RunKey, *, process: str = "p2", **how: Any) -> Ended:
        """Claims a run and ends it; by itself unless told otherwise."""
        ended = self.run(self.asking(run, process=process).finish(**how))
        assert isinstance(ended, Ended), ended
        return ended

    # What stands in the store.

    def status(self, run: RunKey) -> RunView | None:
        return self.run(reading.read_status(run))

    def state(self, run: RunKey) -> SubagentState:
        view = self.status(run)
        assert view is not None
        return view.state

    def record(self, run: RunKey) -> Any:
        view = self.status(run)
        assert view is not None
        return view.record

    def result(self, run: RunKey) -> RunResult:
        result = self.run(reading.read_result(run))
        assert result is not None
        return result

    def thread(self, run: RunKey) -> list[str]:
        return self.run(reading.read_thread(self.tenant, run.run_id, self.record(run).thread_id))

    def events(self, run: RunKey) -> list[Event]:
        """The log of a root's tree."""
        return self.run(reading.read_events(self.tenant, run.run_id))

    def story(self, run: RunKey, after: int = 0) -> list[tuple[str, dict[str, Any]]]:
        """The log of a root's tree as (type, payload), without what the clock decides."""
        return [
            (event.type.value, {name: value for name, value in event.data.items() if name != "duration_ms"})
            for event in self.events(run)[after:]
        ]

    def queued(self, queue: str = "retinue") -> list[str]:
        return self._mine(self.server.zrange(keys.queued(self.partition, queue), 0, -1))

    def owned(self, process: str = "p1") -> list[str]:
        return self._mine(self.server.smembers(keys.owned(self.partition, self.process(process))))

    def due(self) -> dict[str, int]:
        timers = self.server.zrange(keys.due(self.partition), 0, -1, withscores=True)
        split = [(keys.split_member(member), int(at)) for member, at in timers]
        return {run_id: at for (tenant, run_id), at in split if tenant == self.tenant}

    def tree(self, run: RunKey) -> dict[str, str]:
        return self.server.hgetall(self.part(run, "tree:{}"))

    def live(self, root: RunKey) -> list[str]:
        """Live runs of a tree, parents first."""
        return [entry.split(" ")[1] for entry in self.server.zrange(self.part(root, "tree:{}:live"), 0, -1)]

    def part(self, run: RunKey, pattern: str) -> str:
        """The key of a run's part, such as `run:{}:j`."""
        return keys.prefixes(self.tenant, run.run_id)[0] + pattern.format(run.run_id)

    def expire_deadline(self, run: RunKey) -> None:
        """Lets a run's deadline be one second ago, where the test needs the moment exactly.

        One that stands still is as late as that when it goes on.
        """
        seconds, _ = self.server.time()
        since_ms = self.server.hget(run.record, "hs")
        deadline_ms = (int(since_ms) if since_ms else seconds * 1000) - 1000
        self.server.hset(run.record, "dl", deadline_ms)
        self.server.zadd(keys.due(self.partition), {run.member: deadline_ms}, xx=True)

    def await_longer(self, *runs: RunKey, ms: int) -> None:
        """Lets a human have been awaited by runs for so much longer."""
        for run in runs:
            since_ms = int(self.server.hget(run.record, "hs"))
            self.server.hset(run.record, "hs", since_ms - ms)

    def forget(self, run: RunKey) -> None:
        """Lets a run's result_ttl be over."""
        for key in self.server.scan_iter(self.part(run, "run:{}*"), count=10_000):
            self.server.delete(key)

    def dump(self) -> Dump:
        return dump(self.server, self.tenant, self.partition)

    def audit(self) -> None:
        """Asserts what must hold in the store at any moment."""
        audit(self.dump(), self.tenant)

    def purge(self, found: Dump) -> None:
        """Removes what was found of the tenant, so that the next test's dump is short."""
        own = [name for name in found if name.startswith(f"retinue:{self.tenant}:")]
        if own:
            self.server.unlink(*own)
        for name in found.keys() - own:
            value = found[name].value
            if ":own:" in name:
                self.server.srem(name, *value)
            else:
                self.server.zrem(name, *(member for member, _ in value))

    def _mine(self, members: Sequence[str]) -> list[str]:
        split = [keys.split_member(member) for member in members]
        return [run_id for tenant, run_id in split if tenant == self.tenant]
