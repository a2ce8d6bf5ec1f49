"""A far machine for the tests that cut its cable."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from tests.acceptance.faults.network_namespace import FarMachine, NamespaceRefusedError


@pytest.fixture(scope="module")
def far() -> Iterator[FarMachine]:
    try:
        machine = FarMachine()
    except NamespaceRefusedError as refused:
        # CI installs the program. A container that may have no namespace is another matter.
        if os.environ.get("CI") == "true" and shutil.which("ip") is None:
            raise
        pytest.skip(str(refused))
    with machine:
        yield machine
