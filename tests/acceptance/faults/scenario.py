"""A scenario with all that runs do, and what must come of it.

A boss runs tools side by side, has two helpers and one agent in the background, sends that one a message,
cancels it, and pays once someone agreed; it is sent a message meanwhile. Beside it a front desk hands its
conversation to an expert.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.acceptance.faults.errands import call, calls, helper, helper_answer, use
from tests.acceptance.faults.histories import NEVER_ANSWERED, History
from tests.acceptance.run_rig import RunRig

from retinue.client import SubagentLifecycle
from retinue.contract import SteerState, SubagentHandle
from retinue.testing.request import ScriptedRequest
from retinue.testing.scripted_server import ScriptedServer
from retinue.testing.scripts import Call, Turn

_NEVER = "never"


def script_scenario(model: ScriptedServer) -> None:
    """What everybody's model says, whatever the goal."""
    model.script("boss").reply(_boss)
    model.script("helper").reply(helper)
    model.script(NEVER_ANSWERED).hold(_NEVER).say("never")
    model.script("front").reply(_front)
    model.script("expert").reply(_expert)


def _boss(asked: ScriptedRequest) -> Turn | str:
    goal, results = asked.messages[0].text, [result.text for result in asked.results]
    if asked.turn == 0:
        return calls(
            use("look", f"{goal}.a"),
            use("book", f"{goal}.b"),
            use("look", f"{goal}.c"),
            _run("helper", f"{goal}.left"),
            _run("helper", f"{goal}.right"),
            _run(NEVER_ANSWERED, f"{goal}.aside", background=True),
        )
    if asked.turn == 1:
        aside = json.loads(results[5])["id"]
        return calls(
            call("steer_agent", id=aside, message="Hurry."),
            call("cancel_agent", id=aside),
            use("pay", f"{goal}.d"),
        )
    return "; ".join(results[:5] + results[8:])


def _front(asked: ScriptedRequest) -> Turn:
    goal = asked.messages[0].text
    return calls(use("book", f"{goal}.g"), call("handoff_conversation", recipient="expert"))


def _expert(asked: ScriptedRequest) -> Turn | str:
    goal = asked.messages[0].text
    if len(asked.results) == 2:
        return calls(use("look", f"{goal}.h"))
    return f"{asked.results[0].text}; {asked.results[2].text}"


def _run(name: str, task: str, **more: object) -> Call:
    return call("run_agent", name=name, task=task, **more)


@dataclass(frozen=True)
class Scenario:
    """One time that it is played.

    Args:
        history: All of its runs.
        boss, desk: Its roots.
    """

    history: History
    boss: SubagentHandle
    desk: SubagentHandle

    @classmethod
    def start(cls, rig: RunRig, lifecycle: SubagentLifecycle, goal: str) -> Scenario:
        """Launches the roots, and sends the boss a message."""
        boss = lifecycle.launch(agent="boss", goal=goal)
        desk = lifecycle.launch(agent="desk", goal=f"{goal}.desk")
        assert lifecycle.steer(boss, "Be quick.")
        return cls(History(rig, lifecycle, goal, (boss, desk)), boss, desk)

    def go_on(self) -> bool:
        """Agrees to what the boss asks; whether the next one may begin."""
        for request in self.history.lifecycle.pending(self.boss):
            self.history.lifecycle.approve(self.boss, request.request_id)
        return self.history.have_ended(self.boss, self.desk)

    def is_over(self) -> bool:
        """Likewise; whether all of it is over, and the hook told of each end."""
        return self.go_on() and self.history.was_told_of()

    def check(self) -> None:
        """Nothing was lost, and nothing done twice."""
        goal = self.history.goal
        helpers = [word for side in ("left", "right") for word in helper_answer(f"{goal}.{side}")]
        answer = [f"saw {goal}.a", f"booked {goal}.b", f"saw {goal}.c", *helpers, f"paid {goal}.d"]
        self.history.check_answer(self.boss, answer, runs=4)
        self.history.check_answer(self.desk, [f"booked {goal}.desk.g", f"saw {goal}.desk.h"], runs=1)
        [steer] = self.history.lifecycle.result(self.boss).steers
        assert steer.state is SteerState.DELIVERED
        self.history.check()
