"""What holds for every test. The fixtures themselves are shipped: retinue.pytest_plugin."""

from __future__ import annotations

import os

import pytest

# The rigs assert too, and say as much as a test when they fail.
pytest.register_assert_rewrite("tests.acceptance", "tests.integration", "tests.unit")

# The desk's own settings, store and keys; RETINUE_SHARED only says where specification files lie.
_DESK_PREFIXES = ("RETINUE_", "OPENAI_", "CELERY_")
_KEPT = {"RETINUE_SHARED"}


@pytest.fixture(autouse=True)
def _no_settings_of_the_desk(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in os.environ:
        if name.startswith(_DESK_PREFIXES) and name not in _KEPT:
            monkeypatch.delenv(name)
    # Where an embedded server would keep its data.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
