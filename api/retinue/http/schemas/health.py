"""Answers to those who look whether the service lives, and can do its work."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

from retinue.http.schemas.answer import Answer

_READY: Final[dict[str, Any]] = {
    "ready": True,
    "checks": [
        {"name": "store", "ok": True, "detail": "answers"},
        {"name": "broker", "ok": True, "detail": "answers"},
        {"name": "workers", "ok": True, "detail": "2 live workers to take work"},
        {"name": "consuming", "ok": True, "detail": "2 of 2 workers take work"},
    ],
}


class AliveAnswer(Answer):
    """That the process answers."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"alive": True}]})

    alive: bool


class CheckAnswer(Answer):
    """One thing that must be so."""

    name: str = Field(description="store, broker, workers or consuming; what is not reached is not named.")
    ok: bool
    detail: str = Field(description="Names workers and queues to loopback callers and admins' keys alone.")


class ReadyAnswer(Answer):
    """Whether the service can do its work, and if not, why."""

    model_config = ConfigDict(json_schema_extra={"examples": [_READY]})

    ready: bool
    checks: list[CheckAnswer]
