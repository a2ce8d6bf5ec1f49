"""A model checker: random operations on the real store, in any order and with faults, beside a small model.

Attempts are abandoned, replies lost (the same operation comes again), and workers that were taken for dead go
on. RETINUE_MODEL_CHECK=<examples> tries that many random ones instead of the usual few, which never change,
and shrinks one that fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.integration.store.machine import StoreMachine
from tests.integration.store.stage import SyncRunner

from retinue.testing.servers import PrivateServer

_EXAMPLES = os.environ.get("RETINUE_MODEL_CHECK")
_STEPS = 50
_USUAL = settings(
    max_examples=int(_EXAMPLES or 20),
    stateful_step_count=_STEPS,
    derandomize=_EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    # To shrink an example that fails takes minutes.
    phases=(Phase.generate, Phase.shrink) if _EXAMPLES else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def runner(valkey_server: PrivateServer) -> Iterator[SyncRunner]:
    """One colour and one server will do: what is random here is the order of the operations."""
    runner = SyncRunner(valkey_server.url)
    yield runner
    runner.close()


@pytest.mark.timeout(300 if _EXAMPLES is None else 0)
def test_the_store_does_as_the_model_says_whatever_happens_in_whatever_order(
    valkey_server: PrivateServer, runner: SyncRunner
) -> None:
    server = valkey_server.client(decode_responses=True)
    run_state_machine_as_test(lambda: StoreMachine(runner, server), settings=_USUAL)
