"""The digest of a run's work: what makes two launches the same work, and what makes them others."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.client.launching.work import work_digest
from retinue.contract import SubagentLaunchRequest


def digest(agent: str = "support", **request: Any) -> str:
    return work_digest(agent, SubagentLaunchRequest.parse({"goal": "Find the rule", **request}))


def test_it_has_three_parts_of_which_the_last_stands_for_what_is_given_along() -> None:
    assert len(digest()) == 20
    given = digest(context="the text")
    assert (len(given), given[:20]) == (30, digest())
    assert digest("researcher")[:10] != digest()[:10]
    assert digest("researcher")[10:] == digest()[10:]


@pytest.mark.parametrize("goal", ["find the rule", " Find\n\tthe  RULE ", "Ｆｉｎｄ the rule"])
def test_case_blanks_and_width_make_no_other_goal(goal: str) -> None:
    assert digest(goal=goal) == digest()


@pytest.mark.parametrize(
    "other",
    [
        {"goal": "Find the rules"},
        {"context": "a"},
        {"context": "b"},
        {"inputs": {"a": 1}},
        {"inputs": {"a": 2}},
        {"context": "a", "inputs": {"a": 1}},
    ],
)
def test_another_goal_context_or_input_is_other_work(other: dict[str, Any]) -> None:
    assert digest(**other) != digest()
    assert digest(**other) == digest(**other)


def test_nothing_that_is_given_along_is_nothing_and_options_do_not_count() -> None:
    assert digest(context="", inputs={}, timeout_seconds=5.0, limits={"max_tree": 1}) == digest()
