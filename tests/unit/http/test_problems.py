from __future__ import annotations

import json

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from retinue.contract import (
    ErrorCode,
    SettingsError,
    StoreReplyError,
    StoreUnavailableError,
    SubagentLifecycleError,
)
from retinue.contract.errors import StoreMemoryError
from retinue.http.problems import STATUS_OF_CODE, Problem, problem_of


def test_every_code_of_the_contract_has_a_status() -> None:
    assert set(STATUS_OF_CODE) == set(ErrorCode)


def test_the_members_follow_rfc_9457() -> None:
    problem = Problem("JSON_TOO_DEEP", 400, "too deep", limit="64", mend="flatten it")

    assert problem.to_dict("r-1") == {
        "type": "urn:retinue:problem:json-too-deep",
        "title": "JSON too deep",
        "status": 400,
        "detail": "too deep",
        "code": "JSON_TOO_DEEP",
        "limit": "64",
        "mend": "flatten it",
        "request_id": "r-1",
    }
    response = problem.response("r-1")
    assert response.media_type == "application/problem+json"
    assert json.loads(bytes(response.body)) == problem.to_dict("r-1")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (
            SubagentLifecycleError("is taken", code=ErrorCode.DUPLICATE_CORRELATION),
            409,
            "DUPLICATE_CORRELATION",
        ),
        (SubagentLifecycleError("is wrong", field="goal"), 422, "INVALID_REQUEST"),
        (StoreUnavailableError("no reply"), 503, "STORE_UNAVAILABLE"),
        (StoreMemoryError("full"), 503, "STORE_UNAVAILABLE"),
        (SettingsError("is missing", setting="store_url"), 500, "INTERNAL_ERROR"),
        (StoreReplyError("secret"), 500, "INTERNAL_ERROR"),
        (RuntimeError("secret"), 500, "INTERNAL_ERROR"),
        (HTTPException(404), 404, "NOT_FOUND"),
        (HTTPException(405, headers={"Allow": "GET"}), 405, "METHOD_NOT_ALLOWED"),
        (HTTPException(400, "secret"), 400, "MALFORMED_JSON"),
    ],
)
def test_an_error_has_one_status_and_code(error: Exception, status: int, code: str) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (status, code)
    assert "secret" not in json.dumps(problem.to_dict())


def test_what_may_go_well_later_says_when() -> None:
    assert problem_of(StoreUnavailableError("no reply")).headers["Retry-After"] == "2"
    assert Problem("RATE_LIMITED", 429, "x", headers={"Retry-After": "7"}).headers["Retry-After"] == "7"
    assert "Retry-After" not in Problem("NOT_FOUND", 404, "x").headers


def test_a_405_says_what_is_allowed() -> None:
    assert problem_of(HTTPException(405, headers={"Allow": "GET"})).headers == {"Allow": "GET"}


class _Query(BaseModel):
    limit: int


def test_a_parameter_at_fault_is_named_and_not_quoted() -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(_Query).validate_python({"limit": "secret"})
    errors = [{**each, "loc": ("query", *each["loc"])} for each in wrong.value.errors()]

    problem = problem_of(RequestValidationError(errors))

    assert (problem.status, problem.code, problem.field) == (422, "INVALID_REQUEST", "limit")
    assert "secret" not in json.dumps(problem.to_dict())
