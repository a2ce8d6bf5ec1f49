"""What `import retinue.client` offers, and what it costs."""

from __future__ import annotations

import inspect
import os
import resource
import subprocess
import sys
from pathlib import Path

import retinue.client
from retinue.agents.tools.tool_context import LifecycleService
from retinue.client import AsyncSubagentLifecycle, SubagentLifecycle

PUBLIC = [
    "AsyncSubagentLifecycle",
    "Audience",
    "Budget",
    "BudgetCap",
    "BudgetRaise",
    "BudgetStatus",
    "DeadLetter",
    "DecisionRefusal",
    "ErrorClassification",
    "ErrorCode",
    "Event",
    "EventType",
    "LaunchLimits",
    "OnDone",
    "OnDuplicate",
    "OnParentEnd",
    "OnSpent",
    "PendingRequest",
    "Phase",
    "Priority",
    "RequestKind",
    "RetinueError",
    "Role",
    "SettingsError",
    "SteerReceipt",
    "SteerState",
    "SubagentCancelResult",
    "SubagentDecision",
    "SubagentHandle",
    "SubagentLaunchRequest",
    "SubagentLifecycle",
    "SubagentLifecycleError",
    "SubagentNode",
    "SubagentPurgeResult",
    "SubagentReconnectResult",
    "SubagentResult",
    "SubagentState",
    "SubagentStatus",
    "SubagentTerminalState",
    "Usage",
    "WaitUntil",
    "Webhook",
]
METHODS = [
    "answer",
    "approve",
    "cancel",
    "close",
    "continue_run",
    "dead_letter",
    "dead_letters",
    "deny",
    "discard",
    "events",
    "full_text",
    "handle",
    "interrupt",
    "launch",
    "launch_many",
    "list",
    "of_parent",
    "operator",
    "pending",
    "purge",
    "raise_budget",
    "reconnect",
    "replay",
    "result",
    "results",
    "run",
    "send_steer",
    "status",
    "steer",
    "steer_status",
    "tree",
    "wait",
    "wait_all",
    "wait_any",
]
HEAVY = (
    "openai", "fastapi", "flower", "pyagentspec", "pydantic_settings", "celery", "kombu", "httpx2",
    "retinue.agents", "retinue.worker", "retinue.client.over_http",
)  # fmt: skip


def test_the_exported_names_are_pinned_and_sorted() -> None:
    assert retinue.client.__all__ == PUBLIC == sorted(PUBLIC)
    assert all(getattr(retinue.client, name) is not None for name in PUBLIC)


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    found = inspect.getmembers(kind, callable)
    return {name: inspect.signature(method) for name, method in found if not name.startswith("_")}


def test_both_facades_have_the_same_methods_with_the_same_parameters() -> None:
    sync, twin = public_methods(SubagentLifecycle), public_methods(AsyncSubagentLifecycle)
    assert sorted(sync) == sorted(twin) == METHODS
    for name, signature in sync.items():
        assert signature.parameters == twin[name].parameters, name


def test_the_facade_is_what_a_tool_is_promised() -> None:
    for name, promised in public_methods(LifecycleService).items():
        offered = public_methods(SubagentLifecycle)[name]
        assert list(offered.parameters) == list(promised.parameters), name


def test_every_method_says_what_it_does() -> None:
    for kind in (SubagentLifecycle, AsyncSubagentLifecycle):
        assert all(getattr(kind, name).__doc__ for name in METHODS)


def test_the_import_brings_nothing_heavy_along() -> None:
    code = "import sys, retinue.client; print(*[name for name in sys.argv[1:] if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, *HEAVY], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_the_import_costs_little_more_than_that_of_its_dependencies(tmp_path: Path) -> None:
    """CPU seconds, the least of three taken in turn: wall time tells of the machine's other work.

    Both find bytecode, as whoever installed them has it. `make bench` prints the ratio; the bound is there to
    catch an import that came along.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)

    def cpu_s(modules: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", f"import {modules}"], check=True, timeout=60, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    taken = [(cpu_s("retinue.client"), cpu_s("celery, redis, pydantic")) for _ in range(4)][1:]
    assert min(ours for ours, _ in taken) < 1.8 * min(theirs for _, theirs in taken)
