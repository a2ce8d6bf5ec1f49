"""The description of the API for programs: what FastAPI finds out by itself, and what holds everywhere."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from retinue.http.openapi.details import add_details
from retinue.http.schemas.problem import ProblemAnswer

_DESCRIPTION: Final = """\
Launch LLM subagents, watch, steer and stop them, from any language.

Every request shows an API key (`Authorization: Bearer rtn_...`, made with `retinue keys create`), or, for the
routes of one run, that run's handle (`Retinue-Handle`). What is not the caller's is answered like what never
was: 404.

Every refusal is `application/problem+json` with a stable `code`. A 429 or 503 says in `Retry-After` when the
same request may go well. Bodies are JSON in UTF-8. Lists come in pages: pass `next_cursor` on as `cursor`.
"""


class DescribedApi(FastAPI):
    """An application whose OpenAPI document tells of refusals, too."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            self.openapi_schema = _document(self)
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """The name of a route in generated clients: that of its function."""
    return route.name


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        summary="Subagents over HTTP",
        description=_DESCRIPTION,
        routes=app.routes,
        servers=[{"url": "/", "description": "The server that this document comes from."}],
    )
    made["info"]["license"] = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = ProblemAnswer.model_json_schema()
    add_details(made)
    return made
