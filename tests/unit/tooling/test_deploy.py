"""The shipped units are in step with the settings' defaults and with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.broker.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)


def _directives(unit: Path) -> dict[str, str]:
    lines = [line for line in unit.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", maxsplit=1) for line in lines)


def test_a_worker_may_drain_before_systemd_kills_it() -> None:
    worker = _directives(DEPLOY / "retinue-worker@.service")

    assert float(worker["TimeoutStopSec"]) >= Settings.model_fields["drain_seconds"].default + 10
    assert worker["KillSignal"] == "SIGTERM"
    assert worker["KillMode"] == "mixed"


@each_unit
def test_a_unit_takes_its_secrets_from_a_file(unit: Path) -> None:
    assert _directives(unit)["EnvironmentFile"] == "/etc/retinue/retinue.env"


@each_unit
def test_a_unit_is_named_in_the_guide(unit: Path) -> None:
    assert unit.name in (DEPLOY / "README.md").read_text()
