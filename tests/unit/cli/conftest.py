"""Commands read the settings of their process, which tests change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retinue.broker.settings import reset_settings


@pytest.fixture(autouse=True)
def _settings_of_the_test() -> Iterator[None]:
    reset_settings()
    yield
    reset_settings()
