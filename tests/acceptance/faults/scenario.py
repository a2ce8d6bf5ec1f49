"""One scenario that has it all, what must come of it, and what may never happen on the way.

A boss runs tools side by side, has two helpers and one agent in the background, sends that one a message,
cancels it, and pays once someone agreed; it is sent a message meanwhile. Beside it a front desk hands its
conversation to an expert. Nobody waits for three more: a helper in a queue that no worker serves, a cashier
whom nobody answers, and an orphan whose agent no worker has any more. Every tool call bears the same
provider's id.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from tests.acceptance.run_rig import RunRig, of_kind

from retinue.broker.catalogue import WorkerEntry
from retinue.broker.routes import private_queue
from retinue.client import SubagentLifecycle
from retinue.contract import (
    TERMINAL_STATES,
    ErrorClassification,
    Event,
    EventType,
    SteerState,
    SubagentHandle,
    SubagentState,
)
from retinue.store import keys
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Call, Turn
from retinue.worker.tool_calls import OUTCOME_UNKNOWN

_NEVER = "never"
_UNKNOWN = "?"
_TICK_S = 0.001
"""Events bear the millisecond in which they happened."""

_ORPHAN = "orphan"
_GONE = "gone"
_ORPHAN_ENDS_AFTER_S = 6.0


def script_scenario(model: ScriptedServer) -> None:
    """What everybody's model says, whatever the goal."""
    model.script("boss").reply(_boss)
    model.script("helper").reply(_helper)
    model.script("slow").hold(_NEVER).say("never")
    model.script("front").reply(_front)
    model.script("expert").reply(_expert)
    model.script("cashier").reply(_cashier)


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


def _boss(asked: ScriptedRequest) -> Turn | str:
    goal, results = asked.messages[0].text, [result.text for result in asked.results]
    if asked.turn == 0:
        return _calls(
            _use("look", f"{goal}.a"),
            _use("book", f"{goal}.b"),
            _use("look", f"{goal}.c"),
            _run("helper", f"{goal}.left"),
            _run("helper", f"{goal}.right"),
            _run("slow", f"{goal}.aside", background=True),
        )
    if asked.turn == 1:
        aside = json.loads(results[5])["id"]
        return _calls(
            _call("steer_agent", id=aside, message="Hurry."),
            _call("cancel_agent", id=aside),
            _use("pay", f"{goal}.d"),
        )
    return "; ".join(results[:5] + results[8:])


def _helper(asked: ScriptedRequest) -> Turn | str:
    goal = asked.messages[0].text
    if asked.turn == 0:
        return _calls(_use("book", f"{goal}.e"), _use("look", f"{goal}.f"))
    return ", ".join(result.text for result in asked.results)


def _front(asked: ScriptedRequest) -> Turn:
    goal = asked.messages[0].text
    return _calls(_use("book", f"{goal}.g"), _call("handoff_conversation", recipient="expert"))


def _expert(asked: ScriptedRequest) -> Turn | str:
    goal = asked.messages[0].text
    if len(asked.results) == 2:
        return _calls(_use("look", f"{goal}.h"))
    return f"{asked.results[0].text}; {asked.results[2].text}"


def _cashier(asked: ScriptedRequest) -> Turn | str:
    goal = asked.messages[0].text
    return asked.results[0].text if asked.results else _calls(_use("pay", f"{goal}.i"))


def _calls(*calls: Call) -> Turn:
    return Turn(calls=calls)


def _call(name: str, /, **arguments: object) -> Call:
    return Call(name, arguments, id="call")


def _use(name: str, line: str) -> Call:
    return _call(name, line=line)


def _run(name: str, task: str, **more: object) -> Call:
    return _call("run_agent", name=name, task=task, **more)


@dataclass(frozen=True)
class Scenario:
    """One time that it is played.

    Args:
        goal: Its own word; all runs of it have goals that begin with it.
        boss, desk: Its roots that a client waits for.
        stray, cashier, orphan: The others.
    """

    rig: RunRig
    lifecycle: SubagentLifecycle
    goal: str
    boss: SubagentHandle
    desk: SubagentHandle
    stray: SubagentHandle
    cashier: SubagentHandle
    orphan: SubagentHandle

    @classmethod
    def start(cls, rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> Scenario:
        """Launches the roots, and sends the boss a message."""
        # A queue of its own, so that it is empty once its only run has ended.
        astray = rig.lifecycle(routes={"helper": f"nowhere-{goal}"})
        boss = lifecycle.launch(agent="boss", goal=goal)
        desk = lifecycle.launch(agent="desk", goal=goal)
        stray = astray.launch(agent="helper", goal=f"{goal}.stray")
        cashier = lifecycle.launch(agent="cashier", goal=f"{goal}.cashier")
        with _worker_of_orphan(rig):
            orphan = lifecycle.launch(
                agent=_ORPHAN, goal=f"{goal}.orphan", timeout_seconds=_ORPHAN_ENDS_AFTER_S
            )
        assert lifecycle.steer(boss, "Be quick.")
        return cls(rig, lifecycle, goal, boss, desk, stray, cashier, orphan)

    @property
    def _roots(self) -> tuple[SubagentHandle, ...]:
        return (self.boss, self.desk, self.stray, self.cashier, self.orphan)

    def go_on(self) -> bool:
        """Agrees to what the boss asks; whether what a client waits for is over."""
        for request in self.lifecycle.pending(self.boss):
            self.lifecycle.approve(self.boss, request.request_id)
        return self._have_ended(self.boss, self.desk)

    def is_over(self) -> bool:
        """Whether all of it is over."""
        return self._have_ended(*self._roots)

    def check(self) -> None:
        """Nothing was lost, and nothing done twice."""
        goal = self.goal
        self._check_result(self.boss, self._boss_answer(), runs=4)
        self._check_result(self.desk, [f"booked {goal}.g", f"saw {goal}.h"], runs=1)
        self._check_result(self.stray, _helper_answer(f"{goal}.stray"), runs=1)
        assert "expired" in str(self.lifecycle.result(self.cashier).summary)
        orphan = self.lifecycle.result(self.orphan)
        assert orphan.error_classification is ErrorClassification.DEADLINE_EXCEEDED
        [steer] = self.lifecycle.result(self.boss).steers
        assert steer.state is SteerState.DELIVERED
        for root in self._roots:
            _check_events(list(self.lifecycle.events(root)))
        self._check_requests()
        self._check_tools()

    def _have_ended(self, *roots: SubagentHandle) -> bool:
        return all(self.lifecycle.status(root).state in TERMINAL_STATES for root in roots)

    def _boss_answer(self) -> list[str]:
        goal = self.goal
        helpers = [word for side in ("left", "right") for word in _helper_answer(f"{goal}.{side}")]
        return [f"saw {goal}.a", f"booked {goal}.b", f"saw {goal}.c", *helpers, f"paid {goal}.d"]

    def _check_result(self, root: SubagentHandle, right: Sequence[str], *, runs: int) -> None:
        result = self.lifecycle.result(root)
        assert result.terminal_state is SubagentState.SUCCEEDED, result
        said = re.split("[;,] ", str(result.summary).replace(OUTCOME_UNKNOWN, _UNKNOWN))
        assert len(said) == len(right), result.summary
        for word, expected in zip(said, right, strict=True):
            # What was in flight when a worker died, nobody knows; unless it may run again.
            assert word == expected or (word == _UNKNOWN and not expected.startswith("saw")), result.summary
        assert len(self.lifecycle.tree(root)) == runs

    def events(self) -> list[Event]:
        """What happened in all of it so far, tree by tree."""
        return [event for root in self._roots for event in self.lifecycle.events(root)]

    def _check_requests(self) -> None:
        """A response that was recorded is not asked for again."""
        recorded = {
            (event.run_id, event.data["iteration"]): event.at.timestamp()
            for event in of_kind(self.events(), EventType.MODEL_FINISHED)
        }
        runs = {(self.rig.goal_of(run), self._is_desk(run)): run for run, _ in recorded}
        for asked in self.rig.model.requests():
            assert asked.problem is None
            assert asked.request is not None
            goal = asked.request.messages[0].text
            if goal.split(".")[0] != self.goal or asked.agent == "slow":
                continue
            run = runs[goal, asked.agent in ("front", "expert")]
            assert asked.started_at < recorded[run, asked.request.turn + 1] + _TICK_S, (goal, asked.turn)

    def _is_desk(self, run: str) -> bool:
        return run == self.desk.subagent_id

    def _check_tools(self) -> None:
        """A tool that may not run again ran once, and none once its result was recorded."""
        ended = {
            f"{event.run_id}:{event.data['iteration']}:{event.data['index']}": event.at.timestamp()
            for event in of_kind(self.events(), EventType.TOOL_FINISHED)
        }
        lines = [line.split() for line in self.rig.ledger()]
        own = [line for line in lines if line[3].split(".")[0] == self.goal]
        for key, at, _, _ in own:
            assert float(at) < ended[key] + _TICK_S, (key, at)
        ran = Counter(key for key, _, name, _ in own if name != "look")
        assert not [key for key, times in ran.items() if times > 1]


def _helper_answer(goal: str) -> list[str]:
    return [f"booked {goal}.e", f"saw {goal}.f"]


def _check_events(events: Sequence[Event]) -> None:
    """Each run begins and ends once, and so does each of its calls."""
    runs = {event.run_id for event in events}
    for kind in (EventType.RUN_CREATED, EventType.RUN_FINISHED):
        assert Counter(event.run_id for event in of_kind(events, kind)) == dict.fromkeys(runs, 1), kind
    for kind in (EventType.TOOL_STARTED, EventType.TOOL_FINISHED):
        calls = Counter(
            (event.run_id, event.data["iteration"], event.data["index"]) for event in of_kind(events, kind)
        )
        assert set(calls.values()) <= {1}, (kind, calls)
    responses = Counter(
        (event.run_id, event.data["iteration"]) for event in of_kind(events, EventType.MODEL_FINISHED)
    )
    assert set(responses.values()) <= {1}, responses
    for run in runs:
        last = [event for event in events if event.run_id == run][-1]
        assert last.type is EventType.RUN_FINISHED, last
