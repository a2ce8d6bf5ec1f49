"""Agent Spec's RetryPolicy at work: what is tried again, and after how long.

The formulas are those of pyagentspec.retrypolicy; where its text leaves a choice, the choice is that of its
own adapters: 400, 401, 403, 422 and 501 are never tried again, whatever the policy lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from retinue.agents.agentspec.remote_spec import RetrySpec

_NEVER: Final = frozenset({400, 401, 403, 422, 501})
_EXPONENT_MAX: Final = 64


def recoverable(spec: RetrySpec, status: int | None, said: str) -> bool:
    """Whether a failed request may succeed when it is sent again.

    Args:
        status: The answer's. None = no answer arrived.
        said: The answer's error code and text: policies may limit a status to some codes.
    """
    if status is None:
        return True
    if status in _NEVER:
        return False
    codes = spec.statuses.get(str(status))
    if codes is None:
        return spec.any_5xx and 500 <= status < 600
    text = said.lower()
    return not codes or any(code.lower() in text for code in codes)


def wait_s(
    spec: RetrySpec, attempt: int, status: int | None, uniform: Callable[[float, float], float]
) -> float:
    """The wait after the given failed attempt (from 1), in seconds.

    Args:
        uniform: A random number between two bounds.
    """
    try:
        grown = spec.initial_delay_s * spec.backoff_factor ** min(attempt - 1, _EXPONENT_MAX)
    except OverflowError:
        grown = spec.max_delay_s
    base = min(grown, spec.max_delay_s)
    match spec.jitter:
        case "none":
            return base
        case "full":
            return uniform(0.0, base)
        case "equal":
            return uniform(base / 2, base)
        case "full_and_equal_for_throttle":
            throttled = status is not None and 400 <= status < 500
            return uniform(base / 2 if throttled else 0.0, base)
        case "decorrelated":
            return min(base + uniform(0.0, 1.0), spec.max_delay_s)
