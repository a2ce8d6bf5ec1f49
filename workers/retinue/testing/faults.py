"""What can go wrong between a client and a model provider, as data.

A fault is declared on a turn, a script or the server (`.fault(rate_limited(), times=2)`); delivery.py
carries it out. The error bodies have the public API's shapes, so that a client classifies them as
it would classify the real ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An HTTP error instead of an answer, with the JSON error body of the API."""

    status: int
    code: str | None = None
    message: str = "scripted error"
    kind: str = "api_error"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def body(self) -> dict[str, dict[str, str | None]]:
        """The JSON body as the API sends it."""
        return {"error": {"message": self.message, "type": self.kind, "param": None, "code": self.code}}


@dataclass(frozen=True, slots=True)
class DropConnection:
    """The connection is closed before the first byte of an answer."""


@dataclass(frozen=True, slots=True)
class SlowStart:
    """The first byte comes `seconds` late; the answer is the scripted one."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SlowStream:
    """The scripted answer, with a pause of `interval_s` between the events of a stream."""

    interval_s: float


@dataclass(frozen=True, slots=True)
class CutStream:
    """The answer stops half-way.

    Attributes:
        after_events: stream events that are still sent; None = half of them.
        clean: False closes the connection; True ends the response properly, but without its
            last events, as some proxies do.
    """

    after_events: int | None = None
    clean: bool = False


@dataclass(frozen=True, slots=True)
class TruncatedBody:
    """A body shorter than its Content-Length, then a closed connection. On a stream: as CutStream."""


@dataclass(frozen=True, slots=True)
class WrongJson:
    """Status 200 with a body, or one stream event, that is not JSON."""


class StreamErrorForm(StrEnum):
    """How a responses stream says that it failed; chat streams know one form only."""

    EVENT = "event"
    """An `error` event with the code beside its type, as documented."""
    NESTED = "nested"
    """An `error` event with an `error` object, as some servers send it."""
    FAILED = "failed"
    """A `response.failed` event, its error in the response."""


@dataclass(frozen=True, slots=True)
class StreamError:
    """An error event in the middle of a stream; without streaming, the same error as status 500."""

    code: str = "server_error"
    message: str = "scripted error inside the stream"
    form: StreamErrorForm = StreamErrorForm.EVENT


@dataclass(frozen=True, slots=True)
class EndlessStream:
    """Text deltas every `interval_s` until the client leaves; without streaming, no answer at all."""

    interval_s: float = 0.05


Fault = (
    ErrorReply
    | DropConnection
    | SlowStart
    | SlowStream
    | CutStream
    | TruncatedBody
    | WrongJson
    | StreamError
    | EndlessStream
)


def rate_limited(*, retry_after_s: float | None = None, retry_after_ms: int | None = None) -> ErrorReply:
    """429 that may be retried, with `Retry-After` and `retry-after-ms` where given."""
    headers = _retry_after(retry_after_s)
    if retry_after_ms is not None:
        headers["retry-after-ms"] = str(retry_after_ms)
    return ErrorReply(429, "rate_limit_exceeded", "Rate limit reached.", "requests", headers)


def quota_exhausted() -> ErrorReply:
    """429 that no retry mends."""
    return ErrorReply(429, "insufficient_quota", "You exceeded your current quota.", "insufficient_quota")


def server_error() -> ErrorReply:
    """500."""
    return ErrorReply(500, "server_error", "The server had an error.", "server_error")


def unavailable(*, retry_after_s: float | None = None) -> ErrorReply:
    """503, with `Retry-After` where given."""
    headers = _retry_after(retry_after_s)
    return ErrorReply(503, "service_unavailable", "The service is unavailable.", "server_error", headers)


def overloaded() -> ErrorReply:
    """529, as some providers say that they are overloaded."""
    return ErrorReply(529, "overloaded", "The engine is overloaded.", "overloaded_error")


def context_too_long() -> ErrorReply:
    """400 context_length_exceeded."""
    message = "This model's maximum context length is 8192 tokens."
    return ErrorReply(400, "context_length_exceeded", message, "invalid_request_error")


def bad_request(message: str = "Invalid request.", code: str | None = None) -> ErrorReply:
    """400 for any other reason."""
    return ErrorReply(400, code, message, "invalid_request_error")


def unauthorized() -> ErrorReply:
    """401 invalid_api_key."""
    return ErrorReply(401, "invalid_api_key", "Incorrect API key provided.", "invalid_request_error")


def _retry_after(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"Retry-After": f"{seconds:g}"}
