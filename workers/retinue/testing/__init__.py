"""What users test their agents with: a scripted OpenAI-compatible server.

Names are imported at their first use: pytest loads this package at each start through the plugin in
fixtures.py, also where the `worker` extra, which the server needs, is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retinue.testing.faults import (
        CutStream,
        DropConnection,
        EndlessStream,
        ErrorReply,
        SlowStart,
        SlowStream,
        StreamError,
        StreamErrorForm,
        TruncatedBody,
        WrongJson,
        bad_request,
        context_too_long,
        overloaded,
        quota_exhausted,
        rate_limited,
        server_error,
        unauthorized,
        unavailable,
    )
    from retinue.testing.record import RecordedRequest
    from retinue.testing.request import Api, ScriptedRequest
    from retinue.testing.scripted_server import ScriptedServer
    from retinue.testing.scripts import (
        Call,
        FaultScope,
        Match,
        Script,
        ScriptError,
        Turn,
        TurnCount,
        TurnUsage,
    )

__all__ = [
    "Api",
    "Call",
    "CutStream",
    "DropConnection",
    "EndlessStream",
    "ErrorReply",
    "FaultScope",
    "Match",
    "RecordedRequest",
    "Script",
    "ScriptError",
    "ScriptedRequest",
    "ScriptedServer",
    "SlowStart",
    "SlowStream",
    "StreamError",
    "StreamErrorForm",
    "TruncatedBody",
    "Turn",
    "TurnCount",
    "TurnUsage",
    "WrongJson",
    "bad_request",
    "context_too_long",
    "overloaded",
    "quota_exhausted",
    "rate_limited",
    "server_error",
    "unauthorized",
    "unavailable",
]

_HOMES = {
    "Api": "request",
    "RecordedRequest": "record",
    "ScriptedRequest": "request",
    "ScriptedServer": "scripted_server",
    **dict.fromkeys(
        ("Call", "FaultScope", "Match", "Script", "ScriptError", "Turn", "TurnCount", "TurnUsage"), "scripts"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'faults')}"), name)
