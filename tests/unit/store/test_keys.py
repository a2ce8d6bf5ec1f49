"""How keys are built: one hash tag a partition, and members that tell tenant and run."""

from __future__ import annotations

import re

import pytest

from retinue.contract import new_run_id, partition_of
from retinue.store import keys

RUN = new_run_id(7)


def test_all_keys_of_a_session_share_its_partitions_hash_tag() -> None:
    partition = partition_of("acme", "customer-42")
    run_id = new_run_id(partition)
    built = [
        keys.record("acme", run_id),
        keys.session("acme", "customer-42"),
        keys.tree_events("acme", run_id),
        keys.thread("acme", run_id, "main"),
        keys.due(partition),
        keys.tenants(partition),
        keys.queued(partition, "gpu"),
        keys.queues(partition),
        keys.owned(partition, "process-1"),
        keys.wake_channel(partition),
    ]
    assert {re.findall(r"\{(.*?)\}", key)[0] for key in built} == {f"p{partition:02d}"}
    assert len(set(built)) == len(built)


def test_prefixes_are_told_by_the_runs_id() -> None:
    assert keys.prefixes("acme", RUN) == ("retinue:acme:{p07}:", "retinue:{p07}:")
    assert keys.record("acme", RUN) == f"retinue:acme:{{p07}}:run:{RUN}"
    with pytest.raises(ValueError):
        keys.prefixes("acme", "not-a-run")


def test_a_member_tells_tenant_and_run() -> None:
    assert keys.split_member(keys.member("acme", RUN)) == ("acme", RUN)


def test_keys_of_processes_have_no_partition() -> None:
    built = [
        keys.lease("p1"),
        keys.process_channel("p1"),
        keys.drain("p1"),
        keys.WORKERS,
        keys.CATALOGUE,
        keys.KEYRING,
        keys.REAPER,
    ]
    assert not any("{" in key for key in built)
    assert len(set(built)) == len(built)


def test_a_correlation_id_is_told_apart_by_its_session_and_short_enough_for_a_record() -> None:
    digests = {keys.correlation_digest(*pair) for pair in (("a", "b"), ("ab", ""), ("a", "c"), ("b", "b"))}
    assert len(digests) == 4
    assert all(re.fullmatch("[0-9a-f]{40}", digest) for digest in digests)
