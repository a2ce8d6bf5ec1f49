from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.agents import Grant
from retinue.agents.effective.grants import check_known_toolsets
from retinue.contract import ErrorCode, SubagentLifecycleError

NAMES = st.sampled_from(["a", "b", "c", "d"])
TOOLSETS = st.none() | st.lists(NAMES, max_size=4)


@given(
    outer=TOOLSETS, inner=TOOLSETS, blocked=st.lists(NAMES), more=st.lists(NAMES), tool=NAMES, toolset=NAMES
)
def test_a_narrowed_grant_allows_nothing_that_the_wider_one_does_not(
    outer: list[str] | None,
    inner: list[str] | None,
    blocked: list[str],
    more: list[str],
    tool: str,
    toolset: str,
) -> None:
    wide = Grant().narrowed(outer, blocked)
    narrow = wide.narrowed(inner, more)
    if narrow.allows(tool, toolset):
        assert wide.allows(tool, toolset)
        assert tool not in blocked
        assert tool not in more
        assert inner is None or toolset in inner


def test_none_inherits_and_empty_means_no_tool_at_all() -> None:
    assert Grant().narrowed(None).allows("t", "a")
    assert not Grant(toolsets=("a",)).narrowed(("a", "b")).allows("t", "b")
    nothing = Grant().narrowed(())
    assert not nothing.allows("t", "a")
    assert not nothing.allows_delegation("run_agent")
    assert not nothing.narrowed(None).allows("t", "a")


def test_a_tool_is_blocked_by_name_and_by_api_name() -> None:
    for name in ("Process refund", "Process_refund"):
        assert not Grant(blocked_tools=(name,)).allows("Process refund", "shop")


def test_delegation_can_be_blocked_by_name_and_survives_a_narrower_grant() -> None:
    assert Grant(toolsets=("a",)).allows_delegation("run_agent")
    assert not Grant(blocked_tools=("run_agent",)).allows_delegation("run_agent")


def test_asking_for_more_than_the_parent_has_names_it() -> None:
    grant = Grant(toolsets=("a", "b"))
    grant.check_not_broadened(("a",))
    grant.check_not_broadened(None)
    Grant().check_not_broadened(("z",))
    with pytest.raises(SubagentLifecycleError, match="z: outside") as caught:
        grant.check_not_broadened(("a", "z"))
    assert caught.value.code is ErrorCode.TOOLSET_BROADENING


def test_an_unknown_toolset_is_named_with_the_known_ones() -> None:
    check_known_toolsets(("a",), ["a"])
    check_known_toolsets(None, [])
    with pytest.raises(SubagentLifecycleError, match=r"z: no such toolset.*a, b") as caught:
        check_known_toolsets(("a", "z"), ["b", "a"])
    assert caught.value.code is ErrorCode.UNKNOWN_TOOLSET
