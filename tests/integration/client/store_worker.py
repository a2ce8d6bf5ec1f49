"""A worker reduced to its store operations: claims runs and moves them on, step by step, as a test says."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence

from retinue.broker.catalogue import advertise_command
from retinue.client.launching.ticket import Verdict
from retinue.contract import ErrorClassification, Phase, SubagentHandle, SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.connections.sync_link import SyncLink
from retinue.store.operations import running
from retinue.store.operations.asking import Asked
from retinue.store.operations.budgets import Reservation
from retinue.store.record import Ending
from retinue.store.replies import Claimed, Ended, Fence, Passed, Paused, Pin, Response, Suspended
from retinue.store.store import Store

PROCESS = "11111111-2222-3333-4444-555555555555"


class StoreWorker:
    """Advertises agents, and takes runs through their states."""

    def __init__(self, url: str, tenant: str = "_") -> None:
        self.link = SyncLink(url, client_name="test-worker", max_connections=2)
        self.store = Store(self.link)
        self.tenant = tenant
        self._operations = itertools.count(1)
        self._lengths: dict[str, int] = {}
        self._agents: list[str] = []

    def advertise(self, *agents: str, **members: object) -> None:
        """Makes agents known, with the tool set `handbook` and the provider `openai`, and lives."""
        entries = {
            "agents": [{"name": name, **members} for name in agents],
            "toolsets": {"handbook": ["search_handbook"]},
        }
        self.link.execute(*advertise_command(entries, ["openai"], time.time()))
        self._agents += agents
        self.link.execute("HSET", keys.WORKERS, PROCESS, json.dumps({"agents": self._agents}))
        self.link.execute("SET", keys.lease(PROCESS), "", "PX", 60_000)

    def expire_deadline(self, run: SubagentHandle | str) -> None:
        """Lets a run's deadline be one second ago."""
        seconds = int(self.link.execute("TIME")[0])
        self.link.execute("HSET", self.key(run).record, "dl", (seconds - 1) * 1000)

    def vanish(self) -> None:
        """Its lease runs out."""
        self.link.execute("DEL", keys.lease(PROCESS))

    def claim(self, run: SubagentHandle | str, *, kind: str = "l", token: str | None = None) -> Fence:
        key = self.key(run)
        agents = ["support", "researcher", "assistant", "object"]
        capable = running.capability(agents, []) if kind == "l" else running.capability([], agents)
        token = token or f"token-{next(self._operations)}"
        call = running.claim(key, token=token, process=PROCESS, capable=capable, alone=True)
        claimed = self.store.run(call)
        assert isinstance(claimed, Claimed), claimed
        self._lengths[key.run_id] = len(claimed.thread)
        return claimed.fence

    def pause(self, run: SubagentHandle | str, reservation: Reservation) -> None:
        """Claims a queued run whose budget does not allow its request."""
        key, fence = self.key(run), self.claim(run)
        length, pin = self._lengths[key.run_id], Pin("d" * 64, "{}", 7, "gpt-5-mini", "openai")
        call = running.boundary(
            key,
            fence,
            self._operation(),
            thread_length=length,
            results=[],
            pin=pin,
            reservation=reservation,
        )
        assert self.store.run(call) == Paused(True, ())

    def boundary(self, run: SubagentHandle | str, fence: Fence, *, first: bool = True) -> Passed:
        key = self.key(run)
        pin = Pin("d" * 64, "{}", 7, "gpt-5-mini", "openai") if first else None
        passed = self.store.run(
            running.boundary(
                key, fence, self._operation(), thread_length=self._lengths[key.run_id], results=[], pin=pin
            )
        )
        assert isinstance(passed, Passed), passed
        return passed

    def record(
        self,
        run: SubagentHandle | str,
        fence: Fence,
        passed: Passed,
        *,
        tools: Sequence[str] = (),
        partial: str | None = None,
        tokens: tuple[int, int] = (5, 3),
    ) -> None:
        key = self.key(run)
        messages = ['{"role":"user"}'] * len(passed.steers) + ['{"role":"assistant"}']
        response = Response(
            iteration=passed.iteration,
            thread_length=self._lengths[key.run_id],
            steers=len(passed.steers),
            phase=Phase.TOOL_CALL if tools else Phase.MODEL_CALL,
            messages=messages,
            tools=tools,
            partial=partial,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            cached_tokens=0,
            reasoning_tokens=0,
            micro_usd=200,
            ending=Ending.STOP,
        )
        self.store.run(running.record_model(key, fence, self._operation(), response))
        self._lengths[key.run_id] += len(messages)

    def tool_result(self, run: SubagentHandle | str, fence: Fence, iteration: int, tool: str) -> None:
        self.store.run(
            running.record_tool_result(
                self.key(run),
                fence,
                iteration=iteration,
                index=0,
                value="found",
                tool=tool,
                ok=True,
                duration_ms=4,
            )
        )

    def suspend(self, run: SubagentHandle | str, fence: Fence, child: str, slot: str = "1:0") -> None:
        call = running.suspend(
            self.key(run),
            fence,
            self._operation(),
            phase=Phase.WAITING_CHILDREN,
            entries=[(slot, f"child:{child}")],
        )
        self.store.run(call)

    def ask(self, run: SubagentHandle | str, *asked: Asked, asking_ms: int = 60_000) -> None:
        """Claims a queued run and lets it wait for a human."""
        fence = self.claim(run)
        self.record(run, fence, self.boundary(run, fence), tools=[each.tool for each in asked])
        call = running.suspend(
            self.key(run),
            fence,
            self._operation(),
            phase=Phase.WAITING_APPROVAL,
            entries=[(f"1:{n}", each) for n, each in enumerate(asked)],
            asking_ms=asking_ms,
        )
        assert isinstance(self.store.run(call), Suspended)

    def finish(
        self,
        run: SubagentHandle | str,
        fence: Fence,
        *,
        state: SubagentState = SubagentState.SUCCEEDED,
        classification: ErrorClassification | None = None,
        summary: str | None = "done",
        payload: dict[str, object] | None = None,
        message: str | None = None,
    ) -> Ended:
        verdict = Verdict(summary=summary, payload=payload, message=message)  # pyright: ignore
        ended = self.store.run(
            running.finish(
                self.key(run),
                fence,
                self._operation(),
                state=state,
                classification=classification,
                result_json=verdict.to_json(),
                reply=summary or "",
                natural=False,
            )
        )
        assert isinstance(ended, Ended), ended
        return ended

    def hand_back(self, run: SubagentHandle | str, fence: Fence) -> None:
        self.store.run(running.hand_back(self.key(run), fence, self._operation()))

    def give_up(self, run: SubagentHandle | str) -> None:
        """Is lost with a queued run, again and again until that is given up."""
        for _ in range(3):
            self.claim(run)
            call = running.take_over(self.key(run), process=PROCESS, dead=True, losses_before_end=3)
            ended = self.store.run(call)
        assert isinstance(ended, Ended), ended

    def complete(self, run: SubagentHandle | str, summary: str = "done") -> None:
        """Claims a queued run and finishes it with one iteration."""
        fence = self.claim(run)
        self.record(run, fence, self.boundary(run, fence))
        self.finish(run, fence, summary=summary)

    def close(self) -> None:
        self.link.close()

    def key(self, run: SubagentHandle | str) -> RunKey:
        return RunKey(self.tenant, run if isinstance(run, str) else run.subagent_id)

    def _operation(self) -> str:
        return f"op-{next(self._operations)}"
