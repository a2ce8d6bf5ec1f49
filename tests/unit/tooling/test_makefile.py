"""The Makefile on machines where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout without .venv."""
    for name in ("Makefile", "pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=environment, capture_output=True, text=True, timeout=60
    )


def test_help_comes_without_a_set_up(checkout: Path) -> None:
    result = _make(checkout)

    assert result.returncode == 0
    assert "make demo" in result.stdout
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_named_with_the_mend(checkout: Path) -> None:
    result = _make(checkout, "test", "PYTHON=no-such-python")

    assert result.returncode == 2
    assert "needs Python 3.11 or newer" in result.stderr
    assert "no-such-python" in result.stderr


def test_an_old_python_is_not_used(checkout: Path) -> None:
    old = checkout / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")  # what the version check answers on an older Python
    old.chmod(0o755)

    result = _make(checkout, "demo", "PYTHON=./old-python")

    assert result.returncode == 2
    assert "needs Python 3.11 or newer" in result.stderr


@pytest.mark.parametrize("changed", ["pyproject.toml", "uv.lock"])
def test_a_change_of_dependencies_brings_the_environment_up_to_date(checkout: Path, changed: str) -> None:
    stamp = checkout / ".venv" / ".ready"
    stamp.parent.mkdir()
    stamp.touch()
    later = stamp.stat().st_mtime + 1

    assert "uv sync" not in _make(checkout, "--dry-run", "test").stdout
    os.utime(checkout / changed, (later, later))
    assert "uv sync" in _make(checkout, "--dry-run", "test").stdout
