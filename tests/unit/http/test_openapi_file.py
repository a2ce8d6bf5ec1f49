"""The contract file in the repository is the one that the application gives, and complete."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from retinue.http.openapi.details import operations
from retinue.http.openapi.file import written

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
OPENAPI: dict[str, Any] = json.loads(FILE.read_text())
OPERATIONS = [(path, operation) for path, operation in operations(OPENAPI)]
NAMES = [operation["operationId"] for _, operation in OPERATIONS]
every_operation = pytest.mark.parametrize(("path", "operation"), OPERATIONS, ids=NAMES)


def test_the_file_is_up_to_date() -> None:
    kept, now = FILE.read_text().splitlines(), written().splitlines()

    diff = list(difflib.unified_diff(kept, now, "docs/openapi.json", "the application", lineterm="", n=2))

    assert not diff, "the API has changed; see that it is meant so, then `make openapi`:\n" + "\n".join(diff)


@every_operation
def test_every_route_says_what_it_does(path: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["description"]
    assert operation["tags"]


@every_operation
def test_every_body_and_answer_has_an_example(path: str, operation: dict[str, Any]) -> None:
    for described in (operation.get("requestBody"), *operation["responses"].values()):
        if described is None or "$ref" in described:
            continue
        for kind, media in described.get("content", {}).items():
            assert has_example(media), f"{kind} of {operation['operationId']}"


@every_operation
def test_every_route_of_the_api_wants_credentials(path: str, operation: dict[str, Any]) -> None:
    if path.startswith("/v1/"):
        assert {name for each in operation["security"] for name in each} >= {"key"}
        assert operation["responses"]["401"]


def has_example(media: dict[str, Any]) -> bool:
    """Whether a body says, by itself or in its schema, how it may look."""
    schema = media.get("schema", {})
    named = [each["$ref"] for each in (schema, *schema.get("anyOf", ())) if "$ref" in each]
    schemas = [schema, *(OPENAPI["components"]["schemas"][ref.rpartition("/")[2]] for ref in named)]
    return any(key in where for where in (media, *schemas) for key in ("example", "examples"))
