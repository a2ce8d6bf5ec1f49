"""What a worker notes beside a run's sequence of operations: retries, progress, that it drains."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from retinue.contract import EventType
from retinue.store.call import RunKey, ScriptCall, on_run, text, unexpected
from retinue.store.replies import Fence, Recorded, Stale

PROGRESS_KEPT = 200
"""Progress messages kept per run, the newest."""


def note_retry(
    run: RunKey, fence: Fence, *, iteration: int, reason: str, delay_ms: int
) -> ScriptCall[Recorded | Stale]:
    """Logs and counts that a model request is tried again.

    Args:
        reason: A classification.
        delay_ms: Until the next try.
    """
    rest = f',"iteration":{iteration},"reason":{json.dumps(reason)},"delay_ms":{delay_ms}'
    return _note(run, fence, EventType.MODEL_RETRIED, rest)


def note_progress(run: RunKey, fence: Fence, *, index: int, message: str) -> ScriptCall[Recorded | Stale]:
    """Logs a tool's own progress message in the run's trimmed log."""
    rest = f',"index":{index},"message":{json.dumps(message)}'
    return _note(run, fence, EventType.TOOL_PROGRESS, rest)


def _note(run: RunKey, fence: Fence, event: EventType, rest: str) -> ScriptCall[Recorded | Stale]:
    # The random id makes a repeat of this very call known as such.
    argv = (fence.epoch, fence.token, event.value, rest, PROGRESS_KEPT, secrets.token_hex(8))
    return on_run("note", run, argv, recorded("note"))


def note_draining(run: RunKey, fence: Fence) -> ScriptCall[Recorded | Stale]:
    """Has readers shown that the process which holds the run drains."""
    return on_run("note_draining", run, (fence.epoch, fence.token), recorded("note_draining"))


def recorded(operation: str) -> Callable[[Any], Recorded | Stale]:
    """Reads the reply of a script that records something, or is told that its attempt is stale."""

    def parse(reply: Any) -> Recorded | Stale:
        match text(reply[0]):
            case "OK" | "REPEAT":
                return Recorded()
            case "STALE" | "BEHIND":
                return Stale()
            case _:
                raise unexpected(operation, reply)

    return parse
