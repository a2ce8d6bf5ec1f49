"""Settings without the environment, a handbook tool, and the real Agent Spec files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from retinue.agents import ToolContext
from retinue.broker.settings import Settings

SettingsFactory = Callable[..., Settings]


@pytest.fixture
def make_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SettingsFactory:
    """Settings from arguments alone; one provider `openai` unless told otherwise."""
    for name in list(os.environ):
        if name.startswith(("RETINUE_", "OPENAI_")) and name != "RETINUE_SHARED":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def make(**values: object) -> Settings:
        values.setdefault("providers", {"openai": {"base_url": "https://api.openai.test/v1"}})
        return Settings.read(**values)

    return make


@pytest.fixture
def settings(make_settings: SettingsFactory) -> Settings:
    return make_settings()


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(
        run_id="sa-p07-" + "a" * 26, tenant="_", session_id="s", agent="support", iteration=2, call_index=1
    )


@pytest.fixture(scope="session")
def spec_files() -> Path:
    """The folder of real Agent Spec files; skipped where it is not at hand."""
    root = os.environ.get("RETINUE_SHARED") or Path(__file__).parents[4] / "shared"
    folder = Path(root).resolve() / "data" / "agentspec"
    if not folder.is_dir():
        pytest.skip("no Agent Spec files: set RETINUE_SHARED")
    return folder
