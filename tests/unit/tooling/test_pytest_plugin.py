"""The shipped pytest plugin: found by itself, and cheap for those who do not use it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

HEAVY = ("aiohttp", "celery", "kombu", "openai", "pyagentspec", "pydantic", "redis")


def test_the_plugin_is_registered_under_the_projects_name() -> None:
    (plugin,) = entry_points(group="pytest11", name="retinue")

    assert plugin.value == "retinue.pytest_plugin"


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import retinue.pytest_plugin; "
        "print('\\n'.join(set(sys.modules) - before))"
    )

    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    imported = set(result.stdout.split())
    assert {name for name in imported if name.startswith("retinue.")} == {"retinue.pytest_plugin"}
    assert imported.isdisjoint(HEAVY)
