"""One worker for all pattern tests: groups come to it by value, each test in a session of its own."""

from __future__ import annotations

import itertools
from collections.abc import Generator

import pytest
from tests.acceptance.patterns.groups import Case
from tests.acceptance.run_rig import RunRig, run_rig

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def patterns_rig(tmp_path_factory: pytest.TempPathFactory) -> Generator[RunRig]:
    """A store, a scripted model and a worker with tools only."""
    directory = tmp_path_factory.mktemp("patterns")
    with run_rig(directory, agents="patterns.pattern_tools") as rig:
        rig.worker(concurrency=2)
        yield rig


@pytest.fixture
def case(patterns_rig: RunRig) -> Case:
    """A test's own agents and session on the shared worker."""
    tag = f"case-{next(_NUMBERS)}"
    return Case(tag, patterns_rig.model, patterns_rig.lifecycle(tag))
