"""What may never happen to runs on the way: that something is lost, or done twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.acceptance.run_rig import RunRig, of_kind

from retinue.client import SubagentLifecycle
from retinue.contract import TERMINAL_STATES, Event, EventType, SubagentHandle, SubagentState
from retinue.worker.calls.tool_calls import OUTCOME_UNKNOWN

NEVER_ANSWERED = "slow"
"""The agent whose model is asked again by each worker that has its run, for nothing is ever recorded."""

_UNKNOWN = "?"
_TICK_S = 0.001
"""Events bear the millisecond in which they happened."""


@dataclass(frozen=True)
class History:
    """The runs of one scenario.

    Args:
        goal: Its own word; all runs of it have goals of their own that begin with it.
        roots: Their roots.
    """

    rig: RunRig
    lifecycle: SubagentLifecycle
    goal: str
    roots: tuple[SubagentHandle, ...]

    def have_ended(self, *roots: SubagentHandle) -> bool:
        """Whether these have."""
        return all(self.lifecycle.status(root).state in TERMINAL_STATES for root in roots)

    def was_told_of(self) -> bool:
        """Whether the agents' hook heard of the end of each run."""
        runs = {event.run_id for event in self.events()}
        told = self.rig.trace("told.txt")
        return told.exists() and runs <= {*told.read_text().split()}

    def events(self) -> list[Event]:
        """What happened in all of it so far, tree by tree."""
        return [event for root in self.roots for event in self.lifecycle.events(root)]

    def check_answer(self, root: SubagentHandle, right: Sequence[str], *, runs: int) -> None:
        """The root has said these words, and its tree has so many runs."""
        result = self.lifecycle.result(root)
        assert result.terminal_state is SubagentState.SUCCEEDED, result
        said = re.split("[;,] ", str(result.summary).replace(OUTCOME_UNKNOWN, _UNKNOWN))
        assert len(said) == len(right), result.summary
        for word, expected in zip(said, right, strict=True):
            # What was in flight when a worker died, nobody knows; unless it may run again.
            assert word == expected or (word == _UNKNOWN and not expected.startswith("saw")), result.summary
        assert len(self.lifecycle.tree(root)) == runs

    def check(self) -> None:
        """All of it ended once, and nothing of it was done twice."""
        for root in self.roots:
            _check_events(list(self.lifecycle.events(root)))
        self._check_requests()
        self._check_tools()

    def _check_requests(self) -> None:
        """A response that was recorded is not asked for again."""
        recorded = {
            (self.rig.goal_of(event.run_id), event.data["iteration"]): event.at.timestamp()
            for event in of_kind(self.events(), EventType.MODEL_FINISHED)
        }
        for asked in self.rig.model.requests():
            assert asked.problem is None
            assert asked.request is not None
            goal = asked.request.messages[0].text
            if goal.split(".")[0] == self.goal and asked.agent != NEVER_ANSWERED:
                last = recorded[goal, asked.request.turn + 1]
                assert asked.started_at < last + _TICK_S, (goal, asked.turn)

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
