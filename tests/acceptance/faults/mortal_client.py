"""A client that does one thing after the other, each in a process that is killed at a point of it.

    python mortal_client.py SESSION '[["after-cancel", "cancel", [HANDLE, "enough"], {}], ...]'

A point is named as in retinue.worker.crash_points; then come a method of the lifecycle facade and its
arguments. The processes are forked from one that has imported what they need. It says of each
`died <point>`, or `ended <point> <status>` if it was not killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import retinue.broker.app  # noqa: F401
from retinue.broker.wakeups import Waker
from retinue.client import SubagentLifecycle
from retinue.store.call import ScriptCall
from retinue.store.store import Store
from retinue.worker.crash_points import CrashPoint


def do(session: str, point: str, method: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Does one thing in a process of its own, and says how that ended."""
    pid = os.fork()
    if pid == 0:
        _arm(CrashPoint(point))
        getattr(SubagentLifecycle(session_id=session), method)(*arguments, **keywords)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    print(f"died {point}" if killed else f"ended {point} {status}", flush=True)


def _arm(point: CrashPoint) -> None:
    run, send = Store.run, Waker.send_sync

    def mortal_run(store: Store, call: Any) -> Any:
        if not isinstance(call, ScriptCall):
            return run(store, call)
        with point.passing(call.script.name):
            return run(store, call)

    def mortal_send(waker: Waker, *wakeups: Any) -> bool:
        with point.passing("wakeup"):
            return send(waker, *wakeups)

    Store.run, Waker.send_sync = mortal_run, mortal_send


if __name__ == "__main__":
    for deed in json.loads(sys.argv[2]):
        do(sys.argv[1], *deed)
