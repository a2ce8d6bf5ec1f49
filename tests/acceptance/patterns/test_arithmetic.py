"""The three calculators, in each mode, on two workers of one slot; one is killed and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyagentspec.swarm import HandoffMode
from tests.acceptance.patterns.arithmetic import QUESTIONS, calculators
from tests.acceptance.patterns.groups import Case
from tests.acceptance.run_rig import run_rig

from retinue.contract import SubagentState


@pytest.mark.parametrize("mode", list(HandoffMode))
def test_the_numbers_are_right_while_a_worker_is_killed_and_replaced(
    tmp_path: Path, mode: HandoffMode
) -> None:
    with run_rig(tmp_path, agents="patterns.pattern_tools") as rig:
        doomed, _ = rig.keep_workers(2, concurrency=1)
        case = Case(f"arithmetic-{mode.value}", rig.model, rig.lifecycle())
        group = calculators(case, mode)
        handles = {question: case.launch(group, question) for question in QUESTIONS}
        # In the middle: some requests are answered, and no run has come to its end yet or few have.
        rig.model.wait_for(lambda model: model.count() >= 3, timeout_s=30)
        doomed.kill()
        rig.keep_workers(2, concurrency=1)

        results = {question: case.ended(handle) for question, handle in handles.items()}

    assert {question: result.terminal_state for question, result in results.items()} == dict.fromkeys(
        QUESTIONS, SubagentState.SUCCEEDED
    )
    answers = {question: int(result.summary or "nothing") for question, result in results.items()}
    assert answers == QUESTIONS
