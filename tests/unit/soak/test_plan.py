"""The plan of a soak's faults."""

from __future__ import annotations

from tests.soak.plan import KILLS, FaultKind, plan_faults


def test_the_seed_alone_makes_the_plan() -> None:
    plan = plan_faults(7, seconds=60, slots=3)
    assert plan == plan_faults(7, seconds=60, slots=3)
    assert plan != plan_faults(8, seconds=60, slots=3)


def test_faults_come_in_order_within_the_time_and_hit_every_slot() -> None:
    plan = plan_faults(1, seconds=600, slots=3)
    assert plan == sorted(plan, key=lambda fault: fault.at_s)
    assert all(0 < fault.at_s < 600 for fault in plan)
    assert {fault.slot for fault in plan} == {0, 1, 2}


def test_a_short_soak_has_every_kind_and_twenty_minutes_have_a_hundred_kills() -> None:
    assert {fault.kind for fault in plan_faults(1, seconds=30, slots=3)} == set(FaultKind)
    long = plan_faults(1, seconds=20 * 60, slots=3)
    assert sum(fault.kind in KILLS for fault in long) >= 100
    assert sum(fault.kind is FaultKind.RESTART_SERVER for fault in long) >= 20
