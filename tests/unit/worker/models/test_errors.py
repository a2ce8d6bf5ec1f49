"""Errors by status, code, words and what broke."""

from datetime import UTC, datetime
from itertools import pairwise

import aiohttp
import httpx2
import openai
import pytest
from pydantic import SecretStr

from retinue.contract import ErrorClassification
from retinue.worker.models import ModelError, Provider
from retinue.worker.models.errors import reported_error, retry_after_s, status_error, transport_error

REQUEST = httpx2.Request("POST", "http://localhost/v1/chat/completions")
PROVIDER = Provider(
    name="p",
    base_url="http://localhost/v1",
    api_key=SecretStr("sk-SECRET"),
    headers={"Authorization": SecretStr("Bearer tok-SECRET")},
)


def of_status(status: int, body: object = None, **headers: str) -> ModelError:
    response = httpx2.Response(
        status, headers={k.replace("_", "-"): v for k, v in headers.items()}, request=REQUEST
    )
    return status_error(PROVIDER, openai.APIStatusError("x", response=response, body=body))


@pytest.mark.parametrize(
    ("status", "body", "classification", "retryable"),
    [
        (429, {"code": "rate_limit_exceeded"}, "MODEL_RATE_LIMITED", True),
        (429, "slow down", "MODEL_RATE_LIMITED", True),
        (429, {"code": "insufficient_quota"}, "MODEL_REJECTED", False),
        (429, {"type": "insufficient_quota", "code": None}, "MODEL_REJECTED", False),
        (500, {"code": "server_error"}, "MODEL_UNAVAILABLE", True),
        (503, "<html>", "MODEL_UNAVAILABLE", True),
        (529, {"type": "overloaded_error"}, "MODEL_UNAVAILABLE", True),
        (408, None, "MODEL_UNAVAILABLE", True),
        (409, None, "MODEL_UNAVAILABLE", True),
        (400, {"message": "bad"}, "MODEL_REJECTED", False),
        (401, {"code": "invalid_api_key"}, "MODEL_REJECTED", False),
        (403, None, "MODEL_REJECTED", False),
        (404, {"code": "model_not_found"}, "MODEL_REJECTED", False),
        (422, None, "MODEL_REJECTED", False),
        (307, None, "MODEL_REJECTED", False),
        (413, None, "CONTEXT_TOO_LONG", False),
        (400, {"code": "context_length_exceeded"}, "CONTEXT_TOO_LONG", False),
        (
            400,
            {"message": "This model's maximum context length is 8192 tokens.", "code": 400},
            "CONTEXT_TOO_LONG",
            False,
        ),
        (400, {"message": "the request exceeds the available context size"}, "CONTEXT_TOO_LONG", False),
        (400, {"message": "prompt is too long: 9 tokens > 8 maximum"}, "CONTEXT_TOO_LONG", False),
        (500, {"message": "lost the context window"}, "MODEL_UNAVAILABLE", True),
        (400, {"code": "content_filter"}, "CONTENT_REFUSED", False),
        (400, {"code": "invalid_prompt"}, "CONTENT_REFUSED", False),
    ],
)
def test_status_code_and_words_decide(status: int, body: object, classification: str, retryable: bool):
    error = of_status(status, body)
    assert (error.classification, error.retryable) == (ErrorClassification(classification), retryable)
    assert error.status == status


def test_the_server_may_forbid_a_retry():
    assert of_status(500, None, x_should_retry="false").retryable is False


def test_the_message_is_ours_and_the_detail_the_servers_without_credentials():
    error = of_status(401, {"code": "invalid_api_key", "message": "PROMPT with sk-SECRET or tok-SECRET"})
    assert str(error) == "provider 'p' answered with an error (HTTP 401, code invalid_api_key)"
    assert error.detail == "PROMPT with *** or ***"
    assert error.code == "invalid_api_key"


def test_a_code_that_is_no_plain_word_is_not_repeated():
    error = reported_error(PROVIDER, {"code": "a sentence, perhaps of the prompt", "message": "m" * 5_000})
    assert error.code is None
    assert len(error.detail or "") == 1_000


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "Fri, 02 Jan 2026 00:00:10 GMT"}, 10.0),
        ({"retry-after": "Fri, 02 Jan 2026 00:00:10 -0000"}, 10.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(headers: dict[str, str], seconds: float | None):
    assert retry_after_s(headers, now=datetime(2026, 1, 2, tzinfo=UTC)) == seconds


def chained(*errors: BaseException) -> BaseException:
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


KEY = aiohttp.client_reqrep.ConnectionKey("h", 1, False, True, None, None, None)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "x")), "cannot be connected to"),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(1, "x")), "does not resolve"),
        (aiohttp.ServerDisconnectedError(), "dropped the connection"),
        (aiohttp.SocketTimeoutError(), "was silent for too long"),
        (aiohttp.ConnectionTimeoutError(), "did not accept a connection in time"),
    ],
)
def test_what_the_sdk_calls_a_time_out_is_told_by_its_cause(cause: BaseException, words: str):
    error = transport_error(
        PROVIDER, chained(openai.APITimeoutError(REQUEST), httpx2.ConnectTimeout("x"), cause)
    )
    assert words in str(error)
    assert (error.classification, error.retryable) == (ErrorClassification.MODEL_UNAVAILABLE, True)


@pytest.mark.parametrize(
    ("error", "classification", "retryable"),
    [
        (httpx2.ReadTimeout("x"), "MODEL_UNAVAILABLE", True),
        (chained(httpx2.ReadError("x"), aiohttp.ClientPayloadError("x")), "MODEL_UNAVAILABLE", True),
        (openai.APIConnectionError(request=REQUEST), "MODEL_UNAVAILABLE", True),
        (ConnectionResetError(), "MODEL_UNAVAILABLE", True),
        (aiohttp.ClientConnectorCertificateError(KEY, ValueError()), "MODEL_UNAVAILABLE", False),
        (
            chained(openai.APIConnectionError(request=REQUEST), httpx2.UnsupportedProtocol("x")),
            "MODEL_REJECTED",
            False,
        ),
        (ValueError("with sk-SECRET"), "INTERNAL_ERROR", False),
    ],
)
def test_what_broke_decides(error: BaseException, classification: str, retryable: bool):
    mapped = transport_error(PROVIDER, error)
    assert (mapped.classification, mapped.retryable) == (ErrorClassification(classification), retryable)
    assert "SECRET" not in f"{mapped} {mapped.detail}"


def test_a_server_that_cannot_be_reached_is_told_by_host_and_port_without_credentials():
    for base_url, place in (
        ("http://user:sk-SECRET@box:8000/v1?key=sk-SECRET", "at box:8000 "),
        ("https://api.example.com/v1", "at api.example.com:443 "),
        ("http://[::1]:9/v1", "at [::1]:9 "),
    ):
        provider = Provider(name="p", base_url=base_url)
        error = transport_error(provider, aiohttp.ServerDisconnectedError())
        assert f"provider 'p' {place}" in str(error)
        assert "To mend: see that the server runs, or correct the provider's base_url" in str(error)
        assert f"provider 'p' {place}" in str(reported_error(provider, {}, status=503))
        assert "SECRET" not in str(error)
    assert "provider 'p' dropped" in str(
        transport_error(Provider(name="p", base_url="http://h:port"), aiohttp.ServerDisconnectedError())
    )
