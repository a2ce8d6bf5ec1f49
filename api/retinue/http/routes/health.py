"""For orchestrators and people: does the process live, and can the service do its work?"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from retinue.contract import RetinueError
from retinue.http.access import Scope
from retinue.http.credentials import caller_by_bearer
from retinue.http.json_answer import JsonAnswer
from retinue.http.problems import Problem
from retinue.http.schemas.health import AliveAnswer, ReadyAnswer
from retinue.http.service import service_of

router = APIRouter(tags=["health"])

_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""What a proxy adds: then the peer's address tells nothing of who asks."""


@router.get("/healthz", response_model=AliveAnswer)
async def alive() -> Response:
    """Whether the process answers; it asks nobody else."""
    return JsonAnswer({"alive": True})


@router.get("/readyz", response_model=ReadyAnswer, responses={503: {"model": ReadyAnswer}})
async def ready(request: Request) -> Response:
    """Whether store and broker answer, a worker lives, and what is queued is taken.

    The last is proved by messages that workers take; a verdict is given again for 5 seconds. Without an
    admin's key, and from elsewhere than this host, it tells no names of workers and queues.
    """
    verdict = await service_of(request).readiness.verdict()
    names = _is_local(request) or await _is_admins(request)
    return JsonAnswer(verdict.to_dict(names=names), 200 if verdict.ready else 503)


async def _is_admins(request: Request) -> bool:
    kind, _, shown = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not shown:
        return False
    try:
        caller = await caller_by_bearer(service_of(request), shown.strip())
    except (Problem, RetinueError):
        return False  # no key is needed here: a bad one is no more than none
    return caller.may(Scope.ADMIN)


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in _PASSED_ON):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False
