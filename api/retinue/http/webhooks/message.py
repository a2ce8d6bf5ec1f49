"""What a webhook is told of a run's end: which run, and how it ended; no text of a human or a model."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from retinue.store.operations.deliveries import Delivery

EVENT: Final = "run.finished"


def message_body(delivery: Delivery) -> bytes:
    """The JSON that is posted, the same for each attempt."""
    ended = datetime.fromtimestamp(delivery.ended_ms / 1000, UTC).isoformat(timespec="milliseconds")
    value = {
        "type": EVENT,
        "timestamp": ended.replace("+00:00", "Z"),
        "data": {
            "run_id": delivery.run_id,
            "session_id": delivery.session_id,
            "parent_id": delivery.parent_id,
            "agent": delivery.agent,
            "state": delivery.run_state,
            "error_classification": delivery.classification,
        },
    }
    return json.dumps(value, separators=(",", ":")).encode()
