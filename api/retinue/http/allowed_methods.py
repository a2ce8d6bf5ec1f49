"""Which methods a path takes. Each route knows its own alone, and two may share a path."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.routing import Match

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def allowed_methods(request: Request) -> list[str]:
    """The methods of all routes that match the request's path; of those for it alone, if there are any."""
    documented = request.app.openapi()["paths"].get(request.url.path)
    if documented is not None:
        return [method.upper() for method in documented]
    routes = request.app.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
