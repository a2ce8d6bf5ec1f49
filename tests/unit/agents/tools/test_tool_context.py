from __future__ import annotations

import dataclasses

import pytest

from retinue.agents import ToolContext, current_tool_context
from retinue.contract import ErrorCode, SubagentLifecycleError


def test_the_idempotency_key_names_run_iteration_and_call(context: ToolContext) -> None:
    assert context.idempotency_key == f"{context.run_id}:2:1"


def test_progress_is_trimmed_cut_and_never_blank(context: ToolContext) -> None:
    seen: list[str] = []
    context = dataclasses.replace(context, report_progress=seen.append)
    for message in ("  half ", "   ", "x" * 3_000):
        context.progress(message)
    assert seen[0] == "half"
    assert len(seen) == 2
    assert len(seen[1]) == 2_000
    assert seen[1].endswith(" [cut]")


def test_cancelled_asks_the_worker_each_time(context: ToolContext) -> None:
    answers = iter([False, True])
    context = dataclasses.replace(context, is_cancelled=lambda: next(answers))
    assert [context.cancelled, context.cancelled] == [False, True]


def test_outside_of_a_run_there_is_no_lifecycle(context: ToolContext) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        _ = context.subagent_lifecycle
    assert caught.value.code is ErrorCode.NO_PARENT
    assert current_tool_context.get() is None


def test_the_lifecycle_comes_from_the_worker(context: ToolContext) -> None:
    facade = object()
    context = dataclasses.replace(context, lifecycle=lambda: facade)  # pyright: ignore[reportArgumentType]
    assert context.subagent_lifecycle is facade


def test_a_context_cannot_be_changed(context: ToolContext) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.run_id = "x"  # pyright: ignore[reportAttributeAccessIssue]
