"""The rules that a tree's event log keeps, whatever happened to the processes that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retinue.contract import Event, EventType

_AS_HELD = frozenset(
    {EventType.RUN_SUSPENDED, EventType.RUN_HANDED_OFF, EventType.MODEL_STARTED, EventType.MODEL_FINISHED}
)
_ASKS = {EventType.APPROVAL_REQUESTED, EventType.INPUT_REQUESTED}
_DECIDES = {EventType.APPROVAL_DECIDED, EventType.INPUT_ANSWERED}


def broken_rules(events: Sequence[Event], *, all_ended: bool) -> list[str]:
    """What is wrong with a log.

    Args:
        events: Of one tree, from its first on.
        all_ended: Whether each run must have ended.
    """
    runs: dict[str, _Run] = {}
    found: list[str] = []
    for event in events:
        if event.type is EventType.RUN_CREATED:
            parent = event.data["parent_id"]
            if event.run_id in runs:
                found.append(f"{event.sequence} {event.run_id}: created twice")
            if isinstance(parent, str) and (parent not in runs or runs[parent].ended):
                found.append(f"{event.sequence} {event.run_id}: created below a run that is not live")
            runs[event.run_id] = _Run()
        elif event.run_id not in runs:
            found.append(f"{event.sequence} {event.run_id}: {event.type} before it was created")
        else:
            found += [f"{event.sequence} {event.run_id}: {what}" for what in runs[event.run_id].take(event)]
    if all_ended:
        for run_id, run in runs.items():
            found += [f"{run_id}: {what}" for what in run.left_over()]
    return found


@dataclass
class _Run:
    """How far a run has come, by its log."""

    started: bool = False
    ended: bool = False
    suspended: bool = False
    asked_iteration: int = 0
    answered_iteration: int = 0
    open_calls: set[tuple[object, object]] = field(default_factory=set[tuple[object, object]])
    closed_calls: set[tuple[object, object]] = field(default_factory=set[tuple[object, object]])
    open_requests: set[tuple[object, object]] = field(default_factory=set[tuple[object, object]])
    steers: dict[object, bool] = field(default_factory=dict[object, bool])

    def take(self, event: Event) -> list[str]:
        """Moves on; what is wrong with the event here."""
        found = [f"{event.type} after its end"] if self.ended else []
        if event.type in _AS_HELD and (not self.started or self.suspended):
            found.append(f"{event.type} while no worker can have held it")
        match event.type:
            case EventType.RUN_STARTED:
                found += ["started twice"] if self.started else []
                self.started = True
            case EventType.RUN_FINISHED:
                self.ended = True
            case EventType.RUN_SUSPENDED:
                self.suspended = True
            case EventType.RUN_RESUMED:
                self.suspended = False
            case EventType.MODEL_STARTED | EventType.MODEL_FINISHED:
                found += self._model(event)
            case EventType.TOOL_STARTED | EventType.TOOL_FINISHED:
                found += self._call(event)
            case EventType.STEER_QUEUED | EventType.STEER_DELIVERED | EventType.STEER_MISSED:
                found += self._steer(event)
            case _ if event.type in _ASKS | _DECIDES:
                found += self._request(event)
            case _:
                pass
        return found

    def left_over(self) -> list[str]:
        """What an ended run must not leave open."""
        if not self.ended:
            return ["has not ended"]
        lost = [
            f"steer {steer} was neither delivered nor missed" for steer, open_ in self.steers.items() if open_
        ]
        return lost + [f"request {slot} was never closed" for slot in self.open_requests]

    def _model(self, event: Event) -> list[str]:
        iteration = event.data["iteration"]
        assert isinstance(iteration, int)
        if event.type is EventType.MODEL_STARTED:
            # After a loss the same one is asked again; never one whose response is recorded.
            self.asked_iteration = iteration
            missing = [slot for slot in self.open_calls if slot not in self.closed_calls]
            wrong = [f"asked the model with calls {missing} unanswered"] if missing else []
            if iteration != self.answered_iteration + 1:
                wrong.append(f"asked iteration {iteration} after {self.answered_iteration} was recorded")
            return wrong
        wrong = []
        if iteration != self.asked_iteration or iteration <= self.answered_iteration:
            wrong.append(f"recorded iteration {iteration} after {self.answered_iteration}")
        self.answered_iteration = iteration
        self.open_calls = set()
        return wrong

    def _call(self, event: Event) -> list[str]:
        slot = (event.data["iteration"], event.data["index"])
        if event.type is EventType.TOOL_STARTED:
            wrong = [f"call {slot} started twice"] if slot in self.open_calls else []
            self.open_calls.add(slot)
            return wrong
        wrong = [] if slot in self.open_calls else [f"call {slot} finished without a start"]
        wrong += [f"call {slot} finished twice"] if slot in self.closed_calls else []
        self.closed_calls.add(slot)
        return wrong

    def _steer(self, event: Event) -> list[str]:
        steer = event.data["steer"]
        if event.type is EventType.STEER_QUEUED:
            wrong = [f"steer {steer} queued twice"] if steer in self.steers else []
            self.steers[steer] = True
            return wrong
        wrong = [] if self.steers.get(steer) else [f"steer {steer}: {event.type} while it was not open"]
        self.steers[steer] = False
        return wrong

    def _request(self, event: Event) -> list[str]:
        slot = (event.data["iteration"], event.data["index"])
        if event.type in _ASKS:
            wrong = [f"request {slot} made twice"] if slot in self.open_requests else []
            self.open_requests.add(slot)
            return wrong
        wrong = [] if slot in self.open_requests else [f"request {slot} decided while it was not open"]
        self.open_requests.discard(slot)
        return wrong
