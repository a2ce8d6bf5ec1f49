"""An event as a line of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.contract import Event


def event_line(event: Event, *, agent: str | None = None) -> str:
    """Number, local time, run, type and payload of an event.

    Args:
        agent: shown in place of the run's id.
    """
    at = event.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    data = " ".join(f"{key}={value}" for key, value in event.data.items() if value not in (None, ""))
    return f"{event.sequence:>4} {at} {agent or event.run_id} {event.type} {data}".rstrip()
