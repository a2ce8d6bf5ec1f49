"""Waits as long polls, one after the other: an API that is restarted meanwhile is asked again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from retinue.client.clock import WaitClock
from retinue.client.over_http import run_calls
from retinue.client.over_http.call import MUCH_S, Call, Pause, Steps
from retinue.client.scope import Scope
from retinue.contract import (
    ErrorCode,
    SubagentHandle,
    SubagentLifecycleError,
    SubagentResult,
    SubagentTerminalState,
    WaitUntil,
)

T = TypeVar("T")
States = tuple[SubagentTerminalState, ...]

POLL_S: Final = 30.0
"""Longest poll: the API allows 60 s, and many a proxy cuts what is silent for that long."""

RUNS_A_CALL: Final = 500
"""Runs that are named in one request; the API takes 1,000."""

OUTAGES: Final = frozenset({ErrorCode.STORE_UNAVAILABLE, ErrorCode.RATE_LIMITED})
"""What a wait outlasts for a while."""

_TURN_S: Final = 1.0


class NamedRuns:
    """The runs that a caller names, each once, and those of the names that lead nowhere.

    Args:
        scope: Of the facade.
        handles: As the caller gave them.
        by_key: An API key opens what concerns several runs; handles alone open one run at a time.
    """

    def __init__(self, scope: Scope, handles: Sequence[object], *, by_key: bool) -> None:
        self._given = [(handle, scope.candidate(handle)) for handle in handles]
        self._each = list(dict.fromkeys(found for _, found in self._given if found is not None))
        self._size = RUNS_A_CALL if by_key else 1
        self.all_lead_somewhere = all(found is not None for _, found in self._given)

    def parts(self) -> list[list[SubagentHandle]]:
        """The runs in parts of one request each."""
        return [self._each[at : at + self._size] for at in range(0, len(self._each), self._size)]

    def in_order(self, found: Mapping[SubagentHandle, T], unknown: Callable[[object], T]) -> tuple[T, ...]:
        """What was found of each run, in the order of the handles."""
        return tuple(unknown(given) if run is None else found[run] for given, run in self._given)


def wait(
    scope: Scope, handle: object, clock: WaitClock, until: WaitUntil = WaitUntil.END
) -> Steps[SubagentTerminalState]:
    """Mirrors `SubagentLifecycle.wait`."""
    found = scope.candidate(handle)
    if found is None:
        return SubagentTerminalState.unknown(handle)
    is_asked = until is WaitUntil.ASKED
    [state] = yield from _polled(
        lambda poll_s: _poll_one(found, poll_s, until),
        clock,
        lambda states: states[0].completed or (is_asked and not states[0].timed_out),
    )
    return state


def wait_any(runs: NamedRuns, clock: WaitClock) -> Steps[States]:
    """Mirrors `SubagentLifecycle.wait_any`."""
    found: dict[SubagentHandle, SubagentTerminalState] = {}
    parts = runs.parts()
    while True:
        for part in parts:
            # An unknown handle counts as ended, so that the others are only looked at.
            longest_s = POLL_S if len(parts) == 1 and runs.all_lead_somewhere else 0.0
            states = yield from _of_part(part, "any", clock, longest_s)
            found.update(zip(part, states, strict=True))
        is_any_ended = any(state.completed for state in found.values())
        if not parts or is_any_ended or clock.is_over or not runs.all_lead_somewhere:
            break
        yield from _of_part(parts[-1], "any", clock, _TURN_S)
    if is_any_ended or not clock.is_over:
        found = {run: _gone_on(state) for run, state in found.items()}
    return runs.in_order(found, SubagentTerminalState.unknown)


def wait_all(runs: NamedRuns, clock: WaitClock) -> Steps[States]:
    """Mirrors `SubagentLifecycle.wait_all`."""
    found: dict[SubagentHandle, SubagentTerminalState] = {}
    # What was launched last is likely to end last: then one look shows the end of most others.
    for part in reversed(runs.parts()):
        states = yield from _of_part(part, "all", clock, POLL_S)
        found.update(zip(part, states, strict=True))
    return runs.in_order(found, SubagentTerminalState.unknown)


def results(runs: NamedRuns) -> Steps[tuple[SubagentResult, ...]]:
    """Mirrors `SubagentLifecycle.results`."""
    found: dict[SubagentHandle, SubagentResult] = {}
    for part in runs.parts():
        some: tuple[SubagentResult, ...] = yield _results_of(part)
        found.update(zip(part, some, strict=True))
    return runs.in_order(found, SubagentResult.unknown)


def _of_part(part: list[SubagentHandle], mode: str, clock: WaitClock, longest_s: float) -> Steps[States]:
    def poll(poll_s: float) -> Call[States]:
        return _poll_one(part[0], poll_s) if len(part) == 1 else _poll_several(part, mode, poll_s)

    enough = any if mode == "any" else all
    return _polled(poll, clock, lambda states: enough(state.completed for state in states), longest_s)


def _polled(
    poll: Callable[[float], Call[States]],
    clock: WaitClock,
    is_enough: Callable[[States], bool],
    longest_s: float = POLL_S,
) -> Steps[States]:
    """Looks once, and then polls until it is enough or the time is over.

    Args:
        longest_s: Of one poll. Shorter than POLL_S = one poll is enough.
    """
    poll_s = 0.0
    while True:
        try:
            states: States = yield poll(poll_s)
            clock.answered()
        except SubagentLifecycleError as error:
            if error.code not in OUTAGES:
                raise
            yield Pause(clock.outage_pause(error))
            continue
        if clock.is_over or is_enough(states) or longest_s <= poll_s < POLL_S:
            return states
        poll_s = clock.pause(longest_s)


def _poll_one(handle: SubagentHandle, poll_s: float, until: WaitUntil = WaitUntil.END) -> Call[States]:
    return Call(
        method="GET",
        path=run_calls.path_of(handle, "wait"),
        query={"timeout_seconds": poll_s, "until": until.value},
        handle=handle,
        parse=lambda body: (SubagentTerminalState.from_dict(body),),
        unknown=lambda: (SubagentTerminalState.unknown(handle),),
        work_s=poll_s,
    )


def _poll_several(part: Sequence[SubagentHandle], mode: str, poll_s: float) -> Call[States]:
    def states_in(body: Any) -> States:
        return tuple(map(SubagentTerminalState.from_dict, body["states"]))

    body = {"runs": [run.to_dict() for run in part], "mode": mode, "timeout_seconds": poll_s}
    return Call(method="POST", path="/v1/wait", body=body, parse=states_in, work_s=poll_s)


def _results_of(part: Sequence[SubagentHandle]) -> Call[tuple[SubagentResult, ...]]:
    if len(part) == 1:
        [handle] = part
        return Call(
            method="GET",
            path=run_calls.path_of(handle, "result"),
            handle=handle,
            parse=lambda body: (SubagentResult.from_dict(body),),
            unknown=lambda: (SubagentResult.unknown(handle),),
        )

    def results_in(body: Any) -> tuple[SubagentResult, ...]:
        return tuple(map(SubagentResult.from_dict, body["results"]))

    body = {"runs": [run.to_dict() for run in part]}
    return Call(method="POST", path="/v1/results", body=body, parse=results_in, work_s=MUCH_S)


def _gone_on(state: SubagentTerminalState) -> SubagentTerminalState:
    """A run that goes on while another has ended: nobody's time was over."""
    return state if state.completed else replace(state, timed_out=False, diagnostic=None)
