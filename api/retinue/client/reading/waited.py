"""The runs of one wait, for the first of several or for all of them. Pure: both facades share it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from retinue.client.clock import WaitClock
from retinue.client.reading import answers
from retinue.client.reading.reads import chunks, is_over
from retinue.client.scope import Target
from retinue.contract import SubagentTerminalState, WaitUntil
from retinue.store.call import RunKey, ScriptCall
from retinue.store.operations.reading import RunView, read_asked, read_state

Views = Mapping[str, RunView | None]
"""Runs as they were seen last, by id."""


class Awaited(Protocol):
    """What is looked at until it is enough."""

    @property
    def keys(self) -> Sequence[RunKey]:
        """The runs to look at."""
        ...

    @property
    def watched(self) -> Sequence[RunKey]:
        """Those of them whose end is a reason to look again."""
        ...

    def read(self, key: RunKey, /) -> ScriptCall[RunView | None]:
        """The look at one of them."""
        ...

    def is_enough(self, views: Views, /) -> bool:
        """Whether the wait is over, by what a look at all runs showed."""
        ...


class WaitedRuns:
    """What one wait waits for, and what it answers.

    Args:
        targets: Each handle as the caller gave it, with where it leads to; None = nowhere.
        clock: The wait's time.
        until: What is enough, of any of the runs.
    """

    def __init__(
        self,
        targets: Sequence[tuple[object, Target | None]],
        clock: WaitClock,
        until: WaitUntil = WaitUntil.END,
    ) -> None:
        self._targets = targets
        self._clock = clock
        self._until = until
        self.keys: Sequence[RunKey] = list(
            {target.key.run_id: target.key for _, target in targets if target}.values()
        )
        """The runs, each once."""

    @property
    def watched(self) -> Sequence[RunKey]:
        """The end of any of them may be enough."""
        return self.keys

    def read(self, key: RunKey) -> ScriptCall[RunView | None]:
        """What the wait has to know of a run, and no more."""
        return read_asked(key) if self._until is WaitUntil.ASKED else read_state(key)

    def is_enough(self, views: Views) -> bool:
        """Whether the wait for the first of them is over, by what a look at all runs showed."""
        if self._clock.is_over or any(target is None for _, target in self._targets):
            return True
        return any(map(_is_enough, views.values()))

    def parts(self) -> Iterator[LastOfPart]:
        """The runs in parts of one round trip each, for a wait for all of them.

        The last part comes first, for what was launched last is likely to end last: once its end is seen,
        one look shows the end of most others.
        """
        for keys in reversed(list(chunks(self.keys))):
            yield LastOfPart(keys, self._clock)

    def answer(self, views: Views, *, lacking: Collection[str] = ()) -> tuple[SubagentTerminalState, ...]:
        """How each run stands at the end of a wait for the first, in the order of the handles.

        Args:
            lacking: Ids of those that wait for a worker that does not live.
        """
        none_is_enough = not any(map(_is_enough, views.values()))
        return self._ends(views, lacking, timed_out=self._clock.is_over and none_is_enough)

    def answer_all(self, views: Views, *, lacking: Collection[str] = ()) -> tuple[SubagentTerminalState, ...]:
        """How each run stands at the end of a wait for all, in the order of the handles.

        Args:
            lacking: As for `answer`.
        """
        return self._ends(views, lacking, timed_out=self._clock.is_over)

    def _ends(
        self, views: Views, lacking: Collection[str], *, timed_out: bool
    ) -> tuple[SubagentTerminalState, ...]:
        return tuple(
            answers.ended_state(
                target.handle,
                views[target.key.run_id],
                timed_out=timed_out,
                lacks_worker=target.key.run_id in lacking,
            )
            if target
            else SubagentTerminalState.unknown(handle)
            for handle, target in self._targets
        )


@dataclass(frozen=True, slots=True)
class LastOfPart:
    """Runs that are all waited for: the last of them is watched, and the others looked at when it ends.

    Args:
        keys: The runs.
        clock: The wait's time.
    """

    keys: Sequence[RunKey]
    clock: WaitClock

    @property
    def watched(self) -> Sequence[RunKey]:
        """The last."""
        return self.keys[-1:]

    def read(self, key: RunKey) -> ScriptCall[RunView | None]:
        """A wait for all is for their ends."""
        return read_state(key)

    def is_enough(self, views: Views) -> bool:
        """Whether the last has ended, or the time is over."""
        return self.clock.is_over or is_over(views[self.keys[-1].run_id])

    def rest(self, views: Views) -> LastOfPart | None:
        """What is still to be waited for; None = nothing."""
        left = [key for key in self.keys if not is_over(views[key.run_id])]
        return LastOfPart(left, self.clock) if left and not self.clock.is_over else None


def _is_enough(view: RunView | None) -> bool:
    return view is None or view.record.is_terminal or view.is_asking
