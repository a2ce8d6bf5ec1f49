"""One launch of several runs: ids, repetitions, and what the store's answers make of it."""

from __future__ import annotations

from typing import Any

import pytest

from retinue.broker.catalogue import AgentEntry, CatalogueSnapshot
from retinue.broker.settings import Settings
from retinue.client import ErrorCode, SubagentLaunchRequest, SubagentLifecycleError
from retinue.client.launching.batch import LaunchBatch
from retinue.client.launching.planning import LaunchPlanner
from retinue.client.launching.seed import LaunchSeed
from retinue.client.launching.ticket import Ticket
from retinue.client.scope import Scope
from retinue.contract import HandleKey, Keyring, Role, partition_of, partition_of_run
from retinue.store.call import ScriptCall
from retinue.store.operations.launching import DuplicateCorrelation, Launched, LaunchedRun
from retinue.store.operations.reading import RunOrigin
from retinue.store.record import Record

RING = Keyring([HandleKey("k1", b"x" * 32)])
SCOPE = Scope.checked("_", "customer-42")
SNAPSHOT = CatalogueSnapshot({}, {"support": AgentEntry("support")}, {}, frozenset())


def batch(*requests: dict[str, Any], seed: LaunchSeed | None = None) -> LaunchBatch:
    parsed = [SubagentLaunchRequest.parse({"goal": "g", **request}) for request in requests]
    return LaunchBatch(parsed, SCOPE, seed=seed)


def planned(*requests: dict[str, Any], seed: LaunchSeed | None = None) -> LaunchBatch:
    made = batch(*requests, seed=seed)
    made.plan(LaunchPlanner(Settings.read(), None), SNAPSHOT)
    return made


def ids_of(call: ScriptCall[Any] | None) -> list[str]:
    assert call is not None
    words = [word for word in call.argv if isinstance(word, str) and word.startswith("sa-p")]
    return list(dict.fromkeys(words))


def launched(call: ScriptCall[Any] | None) -> Launched:
    runs = tuple(LaunchedRun(run, False, False, "0/", 0, 5_000 + n) for n, run in enumerate(ids_of(call)))
    return Launched(9_000, runs)


def test_each_run_has_an_id_of_its_own_in_the_sessions_partition() -> None:
    ids = ids_of(planned({}, {}, {}).call())
    assert len(set(ids)) == 3
    assert {partition_of_run(run) for run in ids} == {partition_of("_", "customer-42")}


def test_a_call_that_is_asked_for_again_has_the_same_ids() -> None:
    made = planned({}, {})
    first = ids_of(made.call())
    made.plan(LaunchPlanner(Settings.read(), None), SNAPSHOT)
    assert ids_of(made.call()) == first


def test_batches_of_one_seed_have_the_same_ids_and_of_another_others() -> None:
    first, again, other = (
        ids_of(planned({}, {}, seed=LaunchSeed(text, 1.0)).call()) for text in ("a", "a", "b")
    )
    assert first == again
    assert len({*first, *other}) == 4


def test_what_an_earlier_attempt_launched_is_not_asked_for_again() -> None:
    seed = LaunchSeed("a", 7.5, is_repeat=True)
    made, kept = batch({}, {}, {"goal": "expired"}, seed=seed), planned({}, {}, {}, seed=seed)
    alive, gone, expired = made.run_keys()
    record = Record({"sess": "customer-42", "dp": "0", "cr": "5000"})
    ticket = Ticket(SubagentLaunchRequest.parse({"goal": "g"}), Role.LEAF).to_json()
    made.recall(RING, alive, RunOrigin(record, ticket), None)
    made.recall(RING, gone, None, None)
    made.recall(RING, expired, None, ticket)
    made.plan(LaunchPlanner(Settings.read(), None), SNAPSHOT)
    call = made.call()
    assert ids_of(call) == [gone.run_id]
    made.settle(RING, launched(call))
    handles = made.handles()
    assert [handle.created_at for handle in handles] == [5.0, 5.0, 7.5]
    assert [handle.subagent_id for handle in handles] == ids_of(kept.call())


def test_handles_come_in_order_with_the_servers_times() -> None:
    made = planned({"correlation_id": "a"}, {"correlation_id": "b"})
    assert made.settle(RING, launched(made.call())) is None
    assert made.call() is None
    assert [(handle.correlation_id, handle.created_at) for handle in made.handles()] == [
        ("a", 5.0),
        ("b", 5.001),
    ]
    assert all(RING.verify("_", handle) for handle in made.handles())


def test_equal_requests_that_return_share_a_run_and_others_are_refused() -> None:
    twice = {"correlation_id": "a", "on_duplicate": "return"}
    made = planned(twice, {}, twice)
    assert len(ids_of(made.call())) == 2
    made.settle(RING, launched(made.call()))
    first, other, again = made.handles()
    assert first == again != other
    for second, code in (
        ({"correlation_id": "a"}, ErrorCode.DUPLICATE_CORRELATION),
        ({**twice, "goal": "else"}, ErrorCode.CORRELATION_CONFLICT),
    ):
        with pytest.raises(SubagentLifecycleError) as caught:
            batch(twice, second)
        assert (caught.value.code, caught.value.field) == (code, "requests[1].correlation_id")


def test_a_holder_that_stays_unreadable_ends_the_launch() -> None:
    made = planned({"correlation_id": "a", "on_duplicate": "return"})
    holder = made.settle(RING, DuplicateCorrelation("sa-p07-" + "a" * 26, same=True, conflict=False))
    assert holder is not None
    for _ in range(3):
        made.found(RING, holder, None)
    with pytest.raises(SubagentLifecycleError) as caught:
        made.found(RING, holder, None)
    assert caught.value.code == ErrorCode.DUPLICATE_CORRELATION


def test_a_draft_is_a_genuine_handle_of_the_first_run() -> None:
    made = planned({"correlation_id": "a"}, {})
    draft = made.draft(RING)
    assert draft.subagent_id == ids_of(made.call())[0]
    assert RING.verify("_", draft)


def test_wake_ups_stand_ready_for_another_broker() -> None:
    made = planned({"priority": "high"}, {})
    ids = ids_of(made.call())
    assert [(w.run_id, w.number, w.kind, w.priority, w.root_id, w.parent_id) for w in made.wakeups()] == [
        (ids[0], 1, "delegate", 3, ids[0], None),
        (ids[1], 1, "delegate", 6, ids[1], None),
    ]


def test_each_tree_of_a_launch_may_have_a_cap_of_its_own() -> None:
    call = planned({"limits": {"max_tree": 5}}, {}, {"limits": {"max_tree": 0}}).call()
    assert call is not None
    assert call.argv[8] == 1_001, "the settings' own, and the root"
    width = (len(call.argv) - 13) // 3
    assert call.argv[13 + 29 :: width] == (5, "", 0)


@pytest.mark.parametrize("count", [0, 101])
def test_a_launch_takes_one_to_a_hundred(count: int) -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        batch(*[{}] * count)
    assert (caught.value.field, caught.value.limit) == ("requests", "1 to 100")


def test_of_several_the_one_that_cannot_be_planned_is_named() -> None:
    with pytest.raises(SubagentLifecycleError) as caught:
        planned({"agent": "support"}, {"agent": "suport"})
    assert caught.value.field == "requests[1].agent"
    with pytest.raises(SubagentLifecycleError) as caught:
        planned({"agent": "suport"})
    assert caught.value.field == "agent"


def test_an_empty_launch_is_told_how_many_to_give() -> None:
    with pytest.raises(SubagentLifecycleError, match="give 1 to 100"):
        batch()
