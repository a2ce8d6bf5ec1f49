"""Which runs this process holds: what a cancel hint looks up, and what the owner check compares with."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from retinue.store.call import RunKey
from retinue.worker.run.held import HeldRun


@dataclass(slots=True, eq=False)
class Entry:
    """A run that is being claimed, and then held."""

    key: RunKey
    run: HeldRun | None = None
    alarmed: bool = False
    interrupted: bool = False

    def held(self, run: HeldRun) -> None:
        """The claim succeeded."""
        self.run = run
        if self.alarmed:
            run.raise_alarm()
        if self.interrupted:
            run.interrupt()

    def raise_alarm(self) -> None:
        """There may be a cancel mark: the attempt looks as soon as it can."""
        self.alarmed = True
        if self.run:
            self.run.raise_alarm()

    def interrupt(self) -> None:
        """There is an interrupt's mark: the attempt stops at its next boundary."""
        self.interrupted = True
        if self.run:
            self.run.interrupt()


@dataclass(slots=True)
class Roll:
    """All entries of the process, by index member; a run is entered before its claim is sent."""

    _entries: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])

    @contextmanager
    def entered(self, key: RunKey) -> Generator[Entry]:
        """Enters a run for the time of an attempt. A second attempt on the same run shares nothing."""
        entry, member = Entry(key), key.member
        entries = self._entries.setdefault(member, [])
        entries.append(entry)
        try:
            yield entry
        finally:
            # Of several wake-ups one gets the run: it stays on the roll when the others leave, in any order.
            entries.remove(entry)
            if not entries:
                del self._entries[member]

    def members(self) -> set[str]:
        """Every run that is held or being claimed."""
        return set(self._entries)

    def held(self) -> list[HeldRun]:
        """The runs that were claimed."""
        return [entry.run for entries in self._entries.values() for entry in entries if entry.run]

    def alarm(self, run_id: str) -> None:
        """Raises the alarm of a run, whoever its tenant is."""
        for entries in self._entries.values():
            for entry in entries:
                if entry.key.run_id == run_id:
                    entry.raise_alarm()

    def __len__(self) -> int:
        return len(self._entries)
