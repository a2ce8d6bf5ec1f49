"""Waiting for what has to come to pass, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], *, within_s: float = 30) -> None:
    """Looks again and again until the condition holds."""
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at, "it did not come to pass in time"
        time.sleep(0.01)
