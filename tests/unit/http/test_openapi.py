from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from retinue.broker.settings import Settings
from retinue.http import create_app

METHODS = ("get", "post", "put", "patch", "delete")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings.model_construct(**Settings.read(store_url="redis://x:1/0").__dict__)).openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of every operation."""
    return [
        (path, method, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


def test_it_says_what_it_describes(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"] == "Retinue"
    assert document["info"]["version"]
    assert document["servers"][0]["url"] == "/"


def test_every_operation_has_a_name_of_its_own_that_a_client_can_have(document: dict[str, Any]) -> None:
    names = Counter(operation["operationId"] for _, _, operation in operations(document))

    assert names
    assert all(name.isidentifier() and name.islower() for name in names)
    assert [name for name, count in names.items() if count > 1] == []


def test_every_operation_tells_what_it_is_for(document: dict[str, Any]) -> None:
    silent = [(path, method) for path, method, each in operations(document) if not each.get("summary")]

    assert silent == []


def test_every_refusal_of_the_api_is_a_problem(document: dict[str, Any]) -> None:
    shared = document["components"]["responses"]
    for path, method, operation in operations(document):
        if not path.startswith("/v1/"):
            continue
        refusals = {status: each for status, each in operation["responses"].items() if status >= "4"}
        assert {"401", "403", "429", "500", "503"} <= set(refusals), (path, method)
        for status, response in refusals.items():
            described = shared[response["$ref"].rpartition("/")[2]] if "$ref" in response else response
            assert list(described["content"]) == ["application/problem+json"], (path, method, status)
    assert "code" in document["components"]["schemas"]["Problem"]["required"]
    assert "HTTPValidationError" not in str(document)


def test_both_credentials_are_described(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]

    assert {(each["type"], each.get("scheme") or each.get("name")) for each in schemes.values()} == {
        ("http", "bearer"),
        ("apiKey", "Retinue-Handle"),
    }


def test_every_operation_of_the_api_needs_credentials(document: dict[str, Any]) -> None:
    open_to_all = [
        path for path, _, each in operations(document) if path.startswith("/v1/") and not each.get("security")
    ]

    assert open_to_all == []
