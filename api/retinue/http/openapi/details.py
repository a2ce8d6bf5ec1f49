"""What FastAPI cannot find out by itself: the bounds of bodies, examples, and how each route may refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from retinue.http.idempotency import HEADER as IDEMPOTENCY_KEY
from retinue.http.problems import MEDIA_TYPE
from retinue.http.schemas.examples import EXAMPLES
from retinue.http.schemas.facts import FACTS

_HEADERS: Final = {
    401: {"WWW-Authenticate": {"description": "How to identify oneself.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}},
    503: {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}},
}
_EVERY: Final = (401, 403, 404, 421, 429, 500, 503)
_OF_BODIES: Final = (400, 408, 413, 415)
_REFUSALS: Final = (*_EVERY, *_OF_BODIES, 409, 422)
_CONFLICTS: Final = frozenset({"redeliver"})
_METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})

Operation = dict[str, Any]


def add_details(openapi: dict[str, Any]) -> None:
    """Completes a document in place."""
    components: dict[str, Any] = openapi["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["responses"] = {_name_of(status): _refusal(status) for status in sorted(_REFUSALS)}
    for path, operation in operations(openapi):
        _add_refusals(path, operation)
        _add_examples(operation)
    for name, facts in FACTS.items():
        _add_facts(components["schemas"][name]["properties"], facts)


def operations(openapi: Mapping[str, Any]) -> Iterator[tuple[str, Operation]]:
    """Every operation of a document, with its path."""
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            if method in _METHODS:
                yield path, operation


def _add_refusals(path: str, operation: Operation) -> None:
    responses: dict[str, Any] = operation["responses"]
    # The framework's own form of a 422, which this API never answers with.
    if "application/json" in responses.get("422", {}).get("content", {}):
        del responses["422"]
    for status in _refusals(path, operation):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/{_name_of(status)}"})
    operation["responses"] = dict(sorted(responses.items()))


def _refusals(path: str, operation: Operation) -> Iterator[int]:
    """The statuses with which an operation may refuse a request."""
    if not path.startswith("/v1/"):
        return
    # 404 also where no run is named: a handle that comes along with a key may lead nowhere.
    yield from _EVERY
    if "parameters" in operation or "requestBody" in operation:
        yield 422
    # A body that no route asked for is looked at all the same.
    yield from _OF_BODIES
    named = {parameter["name"] for parameter in operation.get("parameters", ())}
    if IDEMPOTENCY_KEY in named or operation["operationId"] in _CONFLICTS:
        yield 409


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    headers = {"headers": _HEADERS[status]} if status in _HEADERS else {}
    return {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}, **headers}


def _name_of(status: int) -> str:
    return HTTPStatus(status).name.title().replace("_", "")


def _add_examples(operation: Operation) -> None:
    for described in (operation.get("requestBody", {}), *operation["responses"].values()):
        media = described.get("content", {}).get("application/json", {})
        example = EXAMPLES.get(_model_of(media.get("schema", {})))
        if example is not None:
            media.setdefault("example", example)


def _model_of(schema: Mapping[str, Any]) -> str:
    """The name of the component that a schema is, or may be."""
    found = [schema, *schema.get("anyOf", ())]
    return next((each["$ref"].rpartition("/")[2] for each in found if "$ref" in each), "")


def _add_facts(properties: dict[str, Any], facts: Mapping[str, Mapping[str, Any]]) -> None:
    for name, fact in facts.items():
        schema: dict[str, Any] = properties[name]
        bounds = {key: value for key, value in fact.items() if key != "description"}
        # Bounds belong to the kind of value that they bound, not to null.
        kinds = schema.get("anyOf", [schema])
        next(kind for kind in kinds if kind.get("type") != "null").update(bounds)
        schema["description"] = fact["description"]
