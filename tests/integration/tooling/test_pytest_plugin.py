"""The shipped fixtures, as a test run of a user sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

USES_BOTH_SERVERS = "def test_store(store_server): assert store_server.client().ping()\n"


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [("", "1 passed, 1 skipped"), ("true", "1 passed, 1 error")], ids=["desk", "CI"]
)
def test_a_missing_server_is_a_skip_at_a_desk_and_a_failure_in_ci(
    tmp_path: Path, in_ci: str, outcome: str
) -> None:
    (tmp_path / "test_store.py").write_text(USES_BOTH_SERVERS)
    environment = {**os.environ, "CI": in_ci, "PATH": str(tmp_path)}  # where no redis-server is

    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert outcome in result.stdout
    assert "no redis server on this machine" in result.stdout
