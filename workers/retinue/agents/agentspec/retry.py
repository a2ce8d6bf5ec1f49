"""RetryPolicy of Agent Spec documents, as a plain value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .remote_spec import RetrySpec

if TYPE_CHECKING:
    from pyagentspec.retrypolicy import RetryPolicy


def retry_spec(policy: RetryPolicy | None) -> RetrySpec | None:
    """The policy with units and without pyagentspec; None = the document has none."""
    if policy is None:
        return None
    return RetrySpec(
        max_retries=policy.max_attempts,
        request_timeout_s=policy.request_timeout,
        initial_delay_s=policy.initial_retry_delay,
        max_delay_s=policy.max_retry_delay,
        backoff_factor=policy.backoff_factor,
        jitter=policy.jitter or "none",
        any_5xx=policy.service_error_retry_on_any_5xx,
        statuses={status: tuple(codes) for status, codes in policy.recoverable_statuses.items()},
    )
