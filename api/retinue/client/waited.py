"""The runs of one wait for the first of several. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retinue.client import answers
from retinue.client.clock import WaitClock
from retinue.client.reads import is_over
from retinue.client.scope import Target
from retinue.contract import SubagentTerminalState
from retinue.store.call import RunKey
from retinue.store.reading import RunView


class WaitedRuns:
    """What one wait waits for, and what it answers.

    Args:
        targets: Each handle as the caller gave it, with where it leads to; None = nowhere.
        clock: The wait's time.
    """

    def __init__(self, targets: Sequence[tuple[object, Target | None]], clock: WaitClock) -> None:
        self._targets = targets
        self._clock = clock
        self.keys: Sequence[RunKey] = list(
            {target.key.run_id: target.key for _, target in targets if target}.values()
        )
        """The runs, each once."""

    def is_enough(self, views: Mapping[str, RunView | None]) -> bool:
        """Whether the wait is over, by what a look at all runs showed."""
        if self._clock.is_over or any(target is None for _, target in self._targets):
            return True
        return any(is_over(view) for view in views.values())

    def answer(self, views: Mapping[str, RunView | None]) -> tuple[SubagentTerminalState, ...]:
        """How each run stands at the end of the wait, in the order of the handles."""
        timed_out = self._clock.is_over and not any(is_over(view) for view in views.values())
        return tuple(
            answers.ended_state(target.handle, views[target.key.run_id], timed_out=timed_out)
            if target
            else SubagentTerminalState.unknown(handle)
            for handle, target in self._targets
        )
