"""Runs that only the elected reaper helps on, and what must become of them.

A stray helper waits in a queue that no worker serves, a cashier for an answer that nobody gives, and an
orphan for its agent, which no worker has any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tests.acceptance.faults.errands import calls, helper, helper_answer, use
from tests.acceptance.faults.histories import History
from tests.acceptance.run_rig import RunRig

from retinue.broker.catalogue import WorkerEntry
from retinue.broker.routes import private_queue
from retinue.client import SubagentLifecycle
from retinue.client.dispatch.connections import connections_for
from retinue.contract import ErrorClassification, SubagentHandle, SubagentState
from retinue.store import keys
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Turn

_ORPHAN = "orphan"
_ORPHAN_ENDS_AFTER_S = 4.0
"""Longer than a reaper's successor needs to be elected and to look."""

_GONE = "gone"


def script_unattended(model: ScriptedServer) -> None:
    """What everybody's model says, whatever the goal."""
    model.script("helper").reply(helper)
    model.script("cashier").reply(_cashier)


def _cashier(asked: ScriptedRequest) -> Turn | str:
    goal = asked.messages[0].text
    return asked.results[0].text if asked.results else calls(use("pay", f"{goal}.i"))


@contextmanager
def _worker_of_orphan(rig: RunRig) -> Generator[None]:
    """Inside, the catalogue has a worker with the agent; once it is gone, only the agent's name is known."""
    known = json.loads(str(rig.store.hget(keys.CATALOGUE, "agent:cashier")))
    rig.store.hset(keys.CATALOGUE, f"agent:{_ORPHAN}", json.dumps({**known, "name": _ORPHAN}))
    worker = WorkerEntry(
        process=_GONE, host=_GONE, pid=1, started_at=time.time(), queues=("retinue",), agents=(_ORPHAN,),
        private_queue=private_queue(_GONE), slots=1, name=_GONE, draining=False,
    )  # fmt: skip
    rig.store.set(keys.lease(_GONE), "", ex=60)
    rig.store.hset(keys.WORKERS, _GONE, json.dumps(asdict(worker)))
    try:
        yield
    finally:
        rig.store.hdel(keys.WORKERS, _GONE)
        rig.store.delete(keys.lease(_GONE))


@dataclass(frozen=True)
class Unattended:
    """One of each.

    Args:
        history: All of its runs.
        stray, cashier, orphan: Its roots.
    """

    history: History
    stray: SubagentHandle
    cashier: SubagentHandle
    orphan: SubagentHandle

    @classmethod
    def start(cls, rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> Unattended:
        """Launches the roots."""
        with _worker_of_orphan(rig):
            # A client that knows the catalogue from before says itself that the orphan has no worker.
            connections_for(rig.settings).catalogue.snapshot(fresh=True)
            orphan = lifecycle.launch(
                agent=_ORPHAN, goal=f"{goal}.orphan", timeout_seconds=_ORPHAN_ENDS_AFTER_S
            )
        # A queue of its own, so that it is empty once its only run has ended.
        astray = rig.lifecycle(routes={"helper": f"nowhere-{goal}"})
        stray = astray.launch(agent="helper", goal=f"{goal}.stray")
        cashier = lifecycle.launch(agent="cashier", goal=f"{goal}.cashier")
        return cls(History(rig, lifecycle, goal, (stray, cashier, orphan)), stray, cashier, orphan)

    def go_on(self) -> bool:
        """Whether the next ones may begin."""
        return self.history.have_ended(self.stray)

    def is_over(self) -> bool:
        """Whether all of it is over."""
        return self.history.have_ended(*self.history.roots)

    def check(self) -> None:
        """Nothing was lost, and nothing done twice."""
        goal, lifecycle = self.history.goal, self.history.lifecycle
        self.history.check_answer(self.stray, helper_answer(f"{goal}.stray"), runs=1)
        cashier = lifecycle.result(self.cashier)
        assert cashier.terminal_state is SubagentState.SUCCEEDED, cashier
        assert "expired" in str(cashier.summary)
        orphan = lifecycle.result(self.orphan)
        assert orphan.error_classification is ErrorClassification.DEADLINE_EXCEEDED
        self.history.check()
