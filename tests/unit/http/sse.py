"""Reading server-sent events as the standard says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """One event. `id` None = it carried none; a comment and a bare `retry:` are none of these."""

    kind: str
    id: int | None
    data: Any

    @property
    def sequence(self) -> int | None:
        """Of an event of the log."""
        return self.data.get("sequence")


class Reader:
    """Takes bytes as they come.

    Attributes:
        events: So far.
        comments: How many there were.
        retry_ms: As last told.
    """

    def __init__(self) -> None:
        self.events: list[Sent] = []
        self.comments = 0
        self.retry_ms: int | None = None
        self._rest = b""

    def feed(self, content: bytes) -> list[Sent]:
        """The events that are whole now."""
        *blocks, self._rest = (self._rest + content).split(b"\n\n")
        new = [sent for block in blocks if (sent := self._event(block.decode())) is not None]
        self.events += new
        return new

    def sequences(self) -> list[int]:
        """Of the events of the log, in the order in which they came."""
        return [sent.data["sequence"] for sent in self.events if "sequence" in sent.data]

    def kinds(self) -> list[str]:
        """Of all events."""
        return [sent.kind for sent in self.events]

    def _event(self, block: str) -> Sent | None:
        fields: dict[str, str] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments += 1
            elif line:
                assert name not in fields, block
                fields[name] = value
        if "retry" in fields:
            self.retry_ms = int(fields["retry"])
        if "data" not in fields:
            assert "id" not in fields, "a comment must not move anybody on"
            return None
        return Sent(
            fields["event"], int(fields["id"]) if "id" in fields else None, json.loads(fields["data"])
        )
