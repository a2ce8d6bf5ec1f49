"""The environment of a test's worker has the test's settings, and none of the desk's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retinue.broker.settings import Settings
from retinue.testing.workers import worker_environment


def test_settings_become_variables_that_the_settings_read(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = worker_environment(
        {
            "store_url": "redis://127.0.0.1:7000/0",
            "agents": "shop.agents,desk.agents",
            "lease_seconds": 1.5,
            "delegation__blocked_tools": "rm",
            "routes": {"triage_*": "fast"},
        }
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    settings = Settings.read()

    assert settings.store_url == "redis://127.0.0.1:7000/0"
    assert settings.agents == ("shop.agents", "desk.agents")
    assert settings.lease_seconds == 1.5
    assert settings.delegation.blocked_tools == ("rm",)
    assert settings.routes == {"triage_*": "fast"}


def test_nothing_of_the_desk_s_settings_leaks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETINUE_STORE_URL", "OPENAI_API_KEY", "CELERY_CUSTOM_WORKER_POOL"):
        monkeypatch.setenv(name, "of the desk")

    assert "of the desk" not in worker_environment({}).values()


def test_a_setting_of_none_is_left_to_its_default() -> None:
    assert "RETINUE_BROKER_URL" not in worker_environment({"broker_url": None})


def test_a_model_s_address_defines_the_provider_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = worker_environment({}, model_url="http://127.0.0.1:9/v1")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert Settings.read().provider("openai").base_url == "http://127.0.0.1:9/v1"


def test_import_paths_come_before_those_of_the_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/desk")

    environment = worker_environment({}, import_paths=[Path("/agents")])

    assert environment["PYTHONPATH"].split(os.pathsep) == ["/agents", "/desk"]


def test_a_mapping_is_passed_as_json() -> None:
    assert json.loads(worker_environment({"routes": {"a": "b"}})["RETINUE_ROUTES"]) == {"a": "b"}
