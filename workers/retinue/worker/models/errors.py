"""What went wrong with a call, as one `ModelError`: by status and code, by what a stream says, by what broke.

Messages are our own words; the server's go into `detail` with the provider's credentials removed.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai

from retinue.broker.outbound.target_guard import TargetRefusedError
from retinue.contract import ErrorClassification
from retinue.worker.models.base import ModelError, Provider
from retinue.worker.models.wire import JsonObject, as_object, mend_surrogates, text_of

DETAIL_MAX_CHARS = 1_000

_CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
# Servers other than OpenAI's give no code: vLLM, llama.cpp, Mistral, Gemini, Anthropic's in this order.
_CONTEXT_WORDS = re.compile(
    r"maximum context length|context (?:size|window|length)|too large for model with \d+"
    r"|exceeds the maximum number of tokens|(?:prompt|input) is too long",
    re.IGNORECASE,
)
_REFUSAL_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "invalid_prompt",  # "flagged as potentially violating our usage policy"
        "bio_policy",
        "misalignment_policy_violation",
        "image_content_policy_violation",
    }
)
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_RATE_CODES = frozenset({"rate_limit_exceeded", "rate_limit_error", "too_many_requests"})
_REQUEST_CODES = frozenset(
    {"invalid_request_error", "badrequesterror", "authentication_error", "permission_error"}
)
_TRANSIENT_STATUSES = frozenset({408, 409, 425})  # the SDK's own list, with Too Early

# What broke, first match wins. With aiohttp under it the SDK reports nearly all of these as a time-out.
_BROKEN: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool], ...] = (
    (
        (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError),
        "has a bad TLS certificate",
        False,
    ),
    (aiohttp.ClientConnectorDNSError, "has a host name that does not resolve", True),
    (aiohttp.ClientConnectorError, "cannot be connected to", True),
    (aiohttp.ConnectionTimeoutError, "did not accept a connection in time", True),
    (aiohttp.ServerTimeoutError, "was silent for too long", True),
    (aiohttp.ClientPayloadError, "broke off its answer", True),
    ((aiohttp.ClientConnectionError, ConnectionError), "dropped the connection", True),
    (httpx2.TimeoutException, "did not answer in time", True),
    (httpx2.DecodingError, "sent an answer that cannot be unpacked", True),
)
_MEND = "To mend: see that the server runs, or correct the provider's base_url"
_BAD_URL = (httpx2.UnsupportedProtocol, httpx2.InvalidURL, aiohttp.InvalidURL)


def status_error(provider: Provider, error: openai.APIStatusError) -> ModelError:
    """The error for an answer with an HTTP status of 300 or more."""
    said = as_object(error.body) or {"message": error.body}
    headers = error.response.headers
    mapped = reported_error(provider, said, status=error.status_code)
    mapped.retry_after_s = retry_after_s(headers)
    if headers.get("x-should-retry") == "false":
        mapped.retryable = False
    return mapped


def reported_error(provider: Provider, said: JsonObject, *, status: int | None = None) -> ModelError:
    """The error for an error object, as a body or an event carries it."""
    raw_code = said.get("code")
    if status is None and isinstance(raw_code, int) and 400 <= raw_code < 600:
        status = raw_code  # vLLM's events carry the status as their code
    code = _word(raw_code) or _word(said.get("type")) or _word(said.get("status"))
    detail = text_of(said.get("message"))
    classification, retryable = _classify(status, (code or "").lower(), detail)
    facts = [f"HTTP {status}"] if status else []
    facts += [f"code {code}"] if code else []
    return ModelError(
        f"{_shown(provider, classification)} answered with an error ({', '.join(facts) or 'no code'})",
        classification=classification,
        retryable=retryable,
        status=status,
        code=code,
        detail=_without_credentials(provider, detail),
    )


def transport_error(provider: Provider, error: BaseException) -> ModelError:
    """The error for an exchange that broke, judged by what was raised first."""
    causes = list(_causes(error))
    name = type(causes[-1]).__name__
    for cause in causes:
        if isinstance(cause, TargetRefusedError):
            return ModelError(str(cause), classification=ErrorClassification.MODEL_REJECTED)
    if any(isinstance(cause, _BAD_URL) for cause in causes):
        return ModelError(
            f"provider {provider.name!r} has a base_url that is no http(s) URL; correct it in the settings",
            classification=ErrorClassification.MODEL_REJECTED,
        )
    for kinds, words, retryable in _BROKEN:
        if any(isinstance(cause, kinds) for cause in causes):
            return _unavailable(provider, f"{words} ({name}). {_MEND}", retryable)
    if isinstance(error, openai.APIConnectionError | httpx2.RequestError | aiohttp.ClientError | OSError):
        return _unavailable(provider, f"cannot be talked to ({name}). {_MEND}", True)
    # The text of an unforeseen error may quote a header or a body.
    return ModelError(
        f"the call of provider {provider.name!r} failed with {type(error).__name__}",
        classification=ErrorClassification.INTERNAL_ERROR,
    )


def unusable_answer(provider: Provider, words: str) -> ModelError:
    """The error for an answer that arrived and makes no sense; another try may get a better one."""
    return _unavailable(provider, words, True)


def beyond_measure(provider: Provider, words: str) -> ModelError:
    """The error for an answer that is too large to go on with: the same request would get another such."""
    classification = ErrorClassification.OUTPUT_INVALID
    return ModelError(f"{_shown(provider, classification)} {words}", classification=classification)


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """The wait that a server asks for in seconds; None if it asks for none or writes nonsense."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            wait_s = float(headers[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if 0 <= wait_s < 1e9:
            return wait_s
    try:
        when = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def _classify(status: int | None, code: str, detail: str) -> tuple[ErrorClassification, bool]:
    if code in _CONTEXT_CODES or status == 413:
        return ErrorClassification.CONTEXT_TOO_LONG, False
    if status in (None, 400, 422) and _CONTEXT_WORDS.search(detail):
        return ErrorClassification.CONTEXT_TOO_LONG, False
    if code in _REFUSAL_CODES:
        return ErrorClassification.CONTENT_REFUSED, False
    if code in _QUOTA_CODES:  # a 429 that no waiting mends
        return ErrorClassification.MODEL_REJECTED, False
    if status == 429 or code in _RATE_CODES:
        return ErrorClassification.MODEL_RATE_LIMITED, True
    if status is None:
        rejected = code in _REQUEST_CODES
    else:
        rejected = status < 500 and status not in _TRANSIENT_STATUSES
    if rejected:
        return ErrorClassification.MODEL_REJECTED, False
    return ErrorClassification.MODEL_UNAVAILABLE, True


def _unavailable(provider: Provider, words: str, retryable: bool) -> ModelError:
    return ModelError(
        f"{_shown(provider, ErrorClassification.MODEL_UNAVAILABLE)} {words}",
        classification=ErrorClassification.MODEL_UNAVAILABLE,
        retryable=retryable,
    )


def _shown(provider: Provider, classification: ErrorClassification) -> str:
    """The provider's name; where the server may be at fault, with host and port, no more of its URL."""
    shown = f"provider {provider.name!r}"
    if classification is not ErrorClassification.MODEL_UNAVAILABLE:
        return shown
    try:
        parts = urlsplit(provider.base_url)
        host, port = parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return shown
    if host is None:
        return shown
    host = f"[{host}]" if ":" in host else host
    return f"{shown} at {host}:{port}" if port else f"{shown} at {host}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"[\w.-]{1,64}", value, re.ASCII) else None


def _without_credentials(provider: Provider, text: str) -> str | None:
    secrets = [*provider.headers.values(), *([provider.api_key] if provider.api_key else [])]
    for secret in secrets:
        value = secret.get_secret_value()
        for part in {value, value.removeprefix("Bearer ")}:
            if len(part) >= 4:
                text = text.replace(part, "***")
    return mend_surrogates(text[:DETAIL_MAX_CHARS]) or None
