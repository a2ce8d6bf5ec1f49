"""How long to wait before what died is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BackOff:
    """Doubles the wait with each death that follows soon upon a start.

    Args:
        first_s: the wait after the first death, in seconds.
        longest_s: the longest wait, in seconds.
        settled_s: what has lived as long as this, in seconds, starts over with the shortest wait. Longer than
            a start takes on a busy machine, or what never comes up would count as settled.
        tries: early deaths in a row after which there is no hope.
        first_tries: the same for what has never lived long: its settings are wrong, most likely.
    """

    first_s: float = 0.5
    longest_s: float = 30.0
    settled_s: float = 30.0
    tries: int = 6
    first_tries: int = 3
    early_deaths: int = 0
    has_settled: bool = False

    def after_death(self, lived_s: float) -> float:
        """The seconds to wait after a death.

        Args:
            lived_s: how long it had lived.
        """
        if lived_s >= self.settled_s:
            self.early_deaths, self.has_settled = 0, True
            return self.first_s
        self.early_deaths += 1
        return min(self.first_s * 2 ** (self.early_deaths - 1), self.longest_s)

    @property
    def is_hopeless(self) -> bool:
        """Whether it has died early so often in a row that something must be mended first."""
        return self.early_deaths >= (self.tries if self.has_settled else self.first_tries)
