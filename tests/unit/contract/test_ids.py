from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.contract import (
    PARTITIONS,
    SubagentLifecycleError,
    child_run_id,
    is_run_id,
    new_run_id,
    parse_task_id,
    partition_of,
    partition_of_run,
    seeded_run_id,
    task_id,
    validate_agent_name,
    validate_session,
    validate_tenant,
)


@given(st.integers(0, PARTITIONS - 1))
def test_a_run_id_tells_its_partition(partition: int) -> None:
    run_id = new_run_id(partition)
    assert is_run_id(run_id)
    assert partition_of_run(run_id) == partition
    assert run_id.startswith(f"sa-p{partition:02d}-")
    assert len(run_id) == 33


@pytest.mark.parametrize("partition", [-1, 64])
def test_a_run_id_for_no_partition_is_refused(partition: int) -> None:
    with pytest.raises(ValueError, match="0 to 63"):
        new_run_id(partition)


def test_the_partition_of_a_session_never_changes() -> None:
    # Pinned: a change would orphan everything that a running deployment has stored.
    assert partition_of("_", "customer-42") == 63
    assert {partition_of("_", f"s{n}") for n in range(2_000)} == set(range(PARTITIONS))


def test_two_root_runs_have_different_ids() -> None:
    assert len({new_run_id(0) for _ in range(1_000)}) == 1_000


def test_a_child_launched_again_from_the_same_place_has_the_same_id() -> None:
    parent = new_run_id(63)
    child = child_run_id(parent, 2, 1, 0)
    assert child == child_run_id(parent, 2, 1, 0)
    assert is_run_id(child)
    assert partition_of_run(child) == 63
    others = {child_run_id(parent, 2, 1, 1), child_run_id(parent, 2, 11, 0), child_run_id(parent, 21, 1, 0)}
    assert len(others | {child, child_run_id(new_run_id(63), 2, 1, 0)}) == 5


def test_a_launch_that_is_repeated_with_its_seed_has_the_same_ids() -> None:
    run = seeded_run_id(63, "seed", 0)
    assert run == seeded_run_id(63, "seed", 0)
    assert is_run_id(run)
    assert partition_of_run(run) == 63
    others = {seeded_run_id(63, "seed", 1), seeded_run_id(63, "seed1", 0), seeded_run_id(63, "seee", 0)}
    assert len(others | {run}) == 4
    with pytest.raises(ValueError):
        seeded_run_id(PARTITIONS, "seed", 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sa-0-1234abcd",
        "sa-p64-" + "a" * 26,
        "sa-p07-" + "A" * 26,
        "sa-p07-" + "a" * 25,
        "sa-p07-" + "a" * 26 + "\n",
    ],
)
def test_another_text_is_no_run_id(text: str) -> None:
    assert not is_run_id(text)
    with pytest.raises(ValueError, match="not a run id"):
        partition_of_run(text)


@pytest.mark.parametrize("value", [None, 7, b"sa-p07-", object(), []])
def test_a_value_of_another_type_is_no_run_id_and_no_task_id(value: object) -> None:
    assert not is_run_id(value)
    assert parse_task_id(value) is None


@given(st.integers(0, 10**14))
def test_a_task_id_names_its_run_and_wake_up(wakeup: int) -> None:
    run_id = new_run_id(7)
    assert parse_task_id(task_id(run_id, wakeup)) == (run_id, wakeup)


@pytest.mark.parametrize("tail", ["", ".", ".x", ".-1", ".01", ".1.2", ".1\n", ".١", "." + "9" * 5_000])
def test_the_task_id_of_another_task_is_not_taken_for_ours(tail: str) -> None:
    assert parse_task_id(new_run_id(7) + tail) is None


@pytest.mark.parametrize("name", ["a", "Price Finder", "n" * 64, "研究員"])
def test_an_agent_may_have_any_printable_name(name: str) -> None:
    assert validate_agent_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "n" * 65, "a\n", " a", "a\x00", "\ud800", None, 5])
def test_a_bad_agent_name_is_refused(name: object) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        validate_agent_name(name)
    assert caught.value.field == "agent"
    assert caught.value.limit
    assert caught.value.mend


@pytest.mark.parametrize("tenant", ["", "t" * 65, "a b", "a:b", "{p00}", "é", "a\n", None, True])
def test_a_tenant_that_could_break_a_key_is_refused(tenant: object) -> None:
    assert validate_tenant("Acme_2-eu") == "Acme_2-eu"
    with pytest.raises(SubagentLifecycleError, match="tenant"):
        validate_tenant(tenant)


@pytest.mark.parametrize("session", ["", "  ", "s" * 129, "a{b", "a}b", "a\tb", "a\x85b", "\udfff", None, 42])
def test_a_session_id_that_could_break_a_key_is_refused(session: object) -> None:
    assert validate_session("customer-42/chat: 7") == "customer-42/chat: 7"
    with pytest.raises(SubagentLifecycleError, match="session_id"):
        validate_session(session)
