"""The application: its parts put together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from starlette.middleware import Middleware

from retinue.broker.settings import Settings
from retinue.http.middleware.body_gate import BodyGate
from retinue.http.middleware.faults import Faults
from retinue.http.middleware.host_check import HostCheck
from retinue.http.middleware.request_log import RequestLog
from retinue.http.middleware.security_headers import SecurityHeaders
from retinue.http.openapi.document import DescribedApi, operation_id
from retinue.http.problems import add_problem_handlers
from retinue.http.readiness.part import readiness_part
from retinue.http.routes import (
    control,
    dead_letters,
    decisions,
    events,
    health,
    live,
    messages,
    operations,
    page,
    runs,
    usage,
    waiting,
    webhooks,
    whoami,
)
from retinue.http.service import Service
from retinue.http.streams.opening import streams_part
from retinue.http.webhooks.part import webhooks_part

_ROUTES: Final = (
    health,
    runs,
    waiting,
    control,
    dead_letters,
    decisions,
    events,
    messages,
    live,
    usage,
    operations,
    webhooks,
    whoami,
    page,
)

Part = Callable[[Service], AbstractAsyncContextManager[None]]
"""Something that works beside the requests: entered before the first of them, left after the last."""

PARTS: Final[tuple[Part, ...]] = (streams_part, webhooks_part, readiness_part)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The HTTP API as an ASGI application.

    Args:
        settings: None = the process's own.

    Raises:
        SettingsError: A setting is wrong.
    """
    service = Service(settings)
    app = DescribedApi(
        title="Retinue",
        version=version("retinue"),
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
        lifespan=_lifespan,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(RequestLog),
            Middleware(SecurityHeaders),
            Middleware(Faults, stopping=service.stopping),
            Middleware(HostCheck, settings=service.settings.http),
            Middleware(BodyGate, settings=service.settings.http),
        ],
    )
    app.state.service = service
    add_problem_handlers(app)
    for routes in _ROUTES:
        app.include_router(routes.router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    service: Service = app.state.service
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        for part in PARTS:
            await stack.enter_async_context(part(service))
        yield
        service.stopping.set()
