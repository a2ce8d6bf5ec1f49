"""Import order: kept by the code, and really checked by the configuration in pyproject.toml.

An import linter that finds no modules is content, and a namespace spread over three roots is easily
not found; so each test that the order is kept has one beside it that a breach is seen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE_ROOTS = ("broker_config", "workers", "api")
LINTER = Path(sys.executable).with_name("lint-imports")


def _lint(project: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(project / root) for root in SOURCE_ROOTS)
    return subprocess.run(
        [LINTER, "--no-logo", "--no-cache"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project in which a test may break the order."""
    for root in SOURCE_ROOTS:
        shutil.copytree(ROOT / root, tmp_path / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_packages_import_downwards_only() -> None:
    result = _lint(ROOT)

    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


def test_an_import_upwards_across_source_roots_is_a_breach(copy: Path) -> None:
    (copy / "broker_config/retinue/store/breach.py").write_text("import retinue.client\n")

    result = _lint(copy)

    assert result.returncode == 1
    assert "retinue.store is not allowed to import retinue.client" in result.stdout


def test_a_library_in_the_contract_is_a_breach(copy: Path) -> None:
    (copy / "broker_config/retinue/contract/breach.py").write_text("import redis\n")

    result = _lint(copy)

    assert result.returncode == 1
    assert "retinue.contract is not allowed to import redis" in result.stdout


def test_a_package_without_a_place_in_the_order_is_a_breach(copy: Path) -> None:
    package = copy / "api/retinue/newcomer"
    package.mkdir()
    (package / "__init__.py").write_text('"""New."""\n')

    result = _lint(copy)

    assert result.returncode == 1
    assert "retinue.newcomer" in result.stdout
