"""Without the extra `worker`, whatever needs it says so in one line with the command that installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retinue.testing.workers import CELERY_COMMAND, RETINUE_COMMAND, worker_environment

RETINUE = RETINUE_COMMAND[0]
HIDES = """
import importlib.machinery
find_spec = importlib.machinery.PathFinder.find_spec
def find(_cls, name, path=None, target=None):
    return None if name in {"openai", "aiohttp", "httpx2"} else find_spec(name, path, target)
importlib.machinery.PathFinder.find_spec = classmethod(find)
"""
MEND = "To mend: pip install 'retinue[worker]'."
ALL = "openai, aiohttp, httpx2, which are not installed"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds none of the packages."""
    (tmp_path / "sitecustomize.py").write_text(HIDES)
    return worker_environment({"store_url": "redis://127.0.0.1:1/0"}, import_paths=[tmp_path])


def run(bare: dict[str, str], *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    directory = bare["PYTHONPATH"].split(os.pathsep)[0]
    return subprocess.run(
        command, env=bare | more, cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (CELERY_COMMAND, f"retinue: the worker needs {ALL}. {MEND}"),
        (RETINUE_COMMAND, f"retinue: the worker needs {ALL}. {MEND}"),
        ((RETINUE, "up"), f"retinue: the worker needs {ALL}. {MEND}"),
        ((RETINUE, "demo"), f"retinue: the demo needs {ALL}. {MEND}"),
        (
            (sys.executable, "-m", "retinue.testing.server"),
            f"the scripted model server needs aiohttp, which is not installed. {MEND}",
        ),
    ],
    ids=["celery", "worker", "up", "demo", "scripted server"],
)
def test_one_line_says_what_is_missing(bare: dict[str, str], command: tuple[str, ...], says: str) -> None:
    done = run(bare, *command)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == says
    assert "Traceback" not in done.stderr


def test_the_fixture_of_the_scripted_model_says_it_too(bare: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(scripted_model): ...\n")

    done = run(bare, sys.executable, "-m", "pytest", "-q", "test_mine.py")

    assert f"the fixture scripted_model needs aiohttp, which is not installed. {MEND}" in done.stdout
    assert "1 error" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("agents", "outcome"), [("", "warning"), ("json", "error")], ids=["client", "worker"]
)
def test_the_doctor_reports_it(bare: dict[str, str], agents: str, outcome: str) -> None:
    done = run(bare, RETINUE, "doctor", "--json", RETINUE_AGENTS=agents)

    (found,) = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "worker extra"]
    assert (found["outcome"], found["mend"]) == (outcome, "pip install 'retinue[worker]'")
    assert found["message"] == f"a worker on this machine needs {ALL}"
