"""The process's limit of concurrent runs, as those see it that wait within a run."""

from __future__ import annotations

from typing import Protocol


class Slots(Protocol):
    """Where a slot is lent while its run waits. Both calls come from any OS thread."""

    def lend(self) -> None: ...
    def take_back(self) -> None: ...
