"""Endpoints and deliveries of webhooks: who gets them, for how long, and that none is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.store.stage import Stage

from retinue.contract import SubagentState
from retinue.store import keys
from retinue.store.call import RunKey
from retinue.store.operations import deliveries, webhooks
from retinue.store.operations.deliveries import Delivery, DeliveryState, Lane, NotQueued, Outcome, Turn
from retinue.store.operations.webhooks import PER_RUN, Disabled, Endpoint

URL = "https://shop.example/hooks"
HELD_MS = 60_000
DELIVERED = Outcome(DeliveryState.DELIVERED, response_status=204, duration_ms=12)
FAILED = Outcome(DeliveryState.FAILED, response_status=500, duration_ms=12, error="status")


def later(ms: int) -> Outcome:
    """Another attempt is to be made after so many milliseconds."""
    return Outcome(DeliveryState.PENDING, again_ms=ms, response_status=503, duration_ms=7, error="status")


class Desk:
    """What an API process does with one tenant's webhooks."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.tenant = stage.tenant
        self.server = stage.server

    def run(self, call: Any) -> Any:
        """The answer to a call."""
        return self.stage.run(call)

    def endpoint(self, name: str = "a", *, most: int = 20, secret: str = "whsec_YQ==") -> str:
        """A registered endpoint's id."""
        webhook_id = f"wh_{name}"
        call = webhooks.add_endpoint(
            self.tenant, webhook_id, url=f"{URL}/{name}", description=name, secret=secret, most=most
        )
        assert self.run(call) is not None
        return webhook_id

    def end(self, *, own_url: str | None = None, child: bool = False) -> RunKey:
        """A run that has ended, and is told."""
        run = self.stage.root(tells="w")
        self.stage.end(run)
        self.post(run, own_url=own_url, child=child)
        return run

    def post(self, run: RunKey, *, own_url: str | None = None, child: bool = False) -> int:
        """How many of the run's deliveries are new."""
        record = self.stage.record(run)
        if child:
            record = type(record)({**record.fields, "par": "sa-p00-" + "a" * 26})
        call = deliveries.post(
            self.tenant,
            run.run_id,
            record,
            own_url=own_url,
            own_place="f" * 32 if own_url else "",
            first_secret="whsec_Zmlyc3Q=",
        )
        return self.run(call)

    def ready(self) -> list[Lane]:
        """This tenant's lanes that may be taken now."""
        return [lane for lane in self.run(deliveries.read_ready(10_000)) if lane.tenant == self.tenant]

    def take(self, lane: str, token: str = "t1", *, held_ms: int = HELD_MS, most: int = 8) -> Turn | None:
        """What a process gets that wants to work on a lane."""
        return self.run(deliveries.take(Lane(self.tenant, lane), token, held_ms=held_ms, most=most))

    def taken(self, lane: str, token: str = "t1", **how: Any) -> Turn:
        """The same, where there is something."""
        turn = self.take(lane, token, **how)
        assert turn is not None
        return turn

    def log(self, webhook_id: str, **how: Any) -> list[Delivery]:
        """A page of an endpoint's deliveries."""
        call = deliveries.read_page(self.tenant, webhook_id, **{"after": None, "most": 100, **how})
        return self.run(call)

    def one(self, delivery: Delivery) -> Delivery:
        """A delivery as it stands now."""
        return self.run(deliveries.read_one(self.tenant, delivery.delivery_id))

    def left(self) -> set[str]:
        """All keys of webhooks that bear the tenant's name, and indexes in which it stands."""
        found = {name for name in self.server.scan_iter("retinue:{webhooks}:*") if self.tenant in name}
        for index in ("due", "held"):
            key = keys.WEBHOOKS + index
            members = self.server.zrange(key, 0, -1) if index == "due" else self.server.hkeys(key)
            found |= {key for member in members if member.startswith(f"{self.tenant}/")}
        return found | (
            {"tenants"} & {"tenants" for name in self.run(webhooks.read_tenants()) if name == self.tenant}
        )


@pytest.fixture
def desk(stage: Stage) -> Iterator[Desk]:
    """A tenant without webhooks, all of whose keys expire or are an endpoint's."""
    desk = Desk(stage)
    yield desk
    lasting = (
        f"{keys.WEBHOOKS}of:",
        f"{keys.WEBHOOKS}at:",
        f"{keys.WEBHOOKS}due",
        f"{keys.WEBHOOKS}held",
        "tenants",
    )
    for name in desk.left():
        assert name.startswith(lasting) or desk.server.ttl(name) > 0, name
    for endpoint in [*desk.run(webhooks.read_endpoints(desk.tenant)), Endpoint(PER_RUN, None, "", None)]:
        while desk.run(webhooks.drop_endpoint(desk.tenant, endpoint.webhook_id)) is None:
            pass
    own = [name for name in desk.left() if ":lane:" in name or name in (keys.WEBHOOKS + "due",)]
    for name in own:
        desk.server.zrem(name, *desk.server.zrange(name, 0, -1))


def test_an_endpoint_is_registered_once_and_shown_without_its_secret(desk: Desk) -> None:
    first, second = desk.endpoint("a"), desk.endpoint("b")
    again = webhooks.add_endpoint(desk.tenant, first, url="x", description="", secret="s", most=1)
    assert desk.run(again) is not None, "the reply to the first was lost"
    found = desk.run(webhooks.read_endpoints(desk.tenant))
    assert [endpoint.webhook_id for endpoint in found] == [first, second]
    assert found[0].url == f"{URL}/a"
    assert found[0].disabled is None
    assert "whsec" not in repr(found)
    assert desk.run(webhooks.read_endpoint(desk.tenant, second)) == [found[1]]
    assert desk.run(webhooks.read_endpoint(desk.tenant, "wh_c")) == []
    assert desk.tenant in desk.run(webhooks.read_tenants())


def test_a_tenant_has_so_many_endpoints_and_no_more(desk: Desk) -> None:
    desk.endpoint("a", most=1)
    call = webhooks.add_endpoint(desk.tenant, "wh_b", url=URL, description="", secret="s", most=1)
    assert desk.run(call) is None


def test_a_roots_end_is_told_to_each_endpoint_once_however_often_it_is_posted(desk: Desk) -> None:
    first, second = desk.endpoint("a"), desk.endpoint("b")
    run = desk.end()
    assert desk.post(run) == 0
    assert {lane.name for lane in desk.ready()} == {first, second}
    turn = desk.taken(first)
    [delivery] = turn.deliveries
    assert (delivery.run_id, delivery.run_state) == (run.run_id, SubagentState.SUCCEEDED)
    assert (delivery.session_id, delivery.parent_id) == (desk.stage.session, None)
    assert (turn.url, turn.secrets.current) == (f"{URL}/a", "whsec_YQ==")
    assert desk.run(deliveries.record(turn, delivery, DELIVERED))
    desk.run(deliveries.release(turn))
    assert desk.post(run) == 0, "what was delivered is not delivered again"
    assert [lane.name for lane in desk.ready()] == [second]


def test_an_endpoint_of_another_tenant_is_not_told(desk: Desk) -> None:
    call = webhooks.add_endpoint("other", "wh_o", url=URL, description="", secret="s", most=20)
    desk.run(call)
    desk.end()
    assert desk.log("wh_o") == []
    assert desk.run(deliveries.read_page("other", "wh_o", after=None, most=10)) == []
    desk.run(webhooks.drop_endpoint("other", "wh_o"))


def test_a_childs_end_is_told_to_its_own_webhook_alone(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end(own_url="https://own.example/a", child=True)
    assert desk.log(endpoint) == []
    [delivery] = desk.log(PER_RUN)
    turn = desk.taken(delivery.lane)
    assert (turn.url, turn.deliveries[0].own_url) == (None, "https://own.example/a")
    assert turn.secrets.current == "whsec_Zmlyc3Q="


def test_runs_own_webhooks_are_signed_with_the_tenants_first_secret_until_it_is_rotated(desk: Desk) -> None:
    assert desk.run(webhooks.rotate_secret(desk.tenant, PER_RUN, "whsec_Mg==")) == 0.0
    desk.end(own_url="https://own.example/a")
    [delivery] = desk.log(PER_RUN)
    assert desk.taken(delivery.lane).secrets.signing(0) == ["whsec_Mg=="]


def test_after_a_rotation_both_secrets_sign_for_a_day(desk: Desk) -> None:
    endpoint = desk.endpoint()
    until = desk.run(webhooks.rotate_secret(desk.tenant, endpoint, "whsec_Yg=="))
    assert desk.run(webhooks.rotate_secret(desk.tenant, endpoint, "whsec_Yg==")) == until, "a repeat"
    desk.end()
    secrets = desk.taken(endpoint).secrets
    assert secrets.signing(until * 1000 - 1) == ["whsec_Yg==", "whsec_YQ=="]
    assert secrets.signing(until * 1000) == ["whsec_Yg=="]
    assert desk.run(webhooks.read_endpoints(desk.tenant))[0].former_signs_until == until
    assert desk.run(webhooks.rotate_secret(desk.tenant, "wh_none", "whsec_Yg==")) is None


def test_while_a_lane_is_held_nobody_else_gets_it_but_a_repeat_does(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    first = desk.taken(endpoint)
    assert desk.ready() == []
    assert desk.take(endpoint, "t2") is None
    assert desk.take(endpoint) == first, "the reply to the first was lost"
    desk.end()
    assert desk.ready() == [], "a new delivery waits for who works on the lane"
    desk.run(deliveries.release(first))
    assert desk.ready() == [first.lane]


def test_one_who_died_is_followed_by_another_and_is_not_heard_any_more(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    dead = desk.taken(endpoint, held_ms=0)
    turn = desk.taken(endpoint, "t2")
    [delivery] = turn.deliveries
    assert delivery.delivery_id == dead.deliveries[0].delivery_id
    assert not desk.run(deliveries.record(dead, delivery, FAILED))
    desk.run(deliveries.release(dead))
    assert desk.ready() == [], "it is the other's"
    assert desk.run(deliveries.record(turn, delivery, DELIVERED))
    assert not desk.run(deliveries.record(turn, delivery, DELIVERED)), "a repeat counts no second attempt"
    assert desk.one(delivery).attempts == 1


def test_a_failed_attempt_is_repeated_after_its_pause_and_others_are_not_kept_waiting(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    turn = desk.taken(endpoint)
    desk.run(deliveries.record(turn, turn.deliveries[0], later(3_600_000)))
    desk.run(deliveries.release(turn))
    assert desk.ready() == []
    kept = desk.one(turn.deliveries[0])
    assert (kept.state, kept.attempts, kept.response_status) == (DeliveryState.PENDING, 1, 503)
    pause_ms = (kept.next_attempt_ms or 0) - (kept.last_attempt_ms or 0)
    assert pause_ms == 3_600_000
    run = desk.end()
    again = desk.taken(endpoint, "t2")
    assert [delivery.run_id for delivery in again.deliveries] == [run.run_id]
    desk.server.zadd(f"{keys.WEBHOOKS}lane:{desk.tenant}:{endpoint}", {kept.delivery_id: 0})
    desk.run(deliveries.record(again, again.deliveries[0], DELIVERED))
    desk.run(deliveries.release(again))
    assert desk.taken(endpoint, "t3").deliveries[0].delivery_id == kept.delivery_id


def test_a_turn_has_so_many_deliveries_and_the_rest_comes_next(desk: Desk) -> None:
    endpoint = desk.endpoint()
    for _ in range(3):
        desk.end()
    turn = desk.taken(endpoint, most=2)
    assert len(turn.deliveries) == 2
    for delivery in turn.deliveries:
        desk.run(deliveries.record(turn, delivery, DELIVERED))
    desk.run(deliveries.release(turn))
    assert len(desk.taken(endpoint, "t2").deliveries) == 1


def test_an_endpoint_that_is_gone_is_turned_off_and_told_again_once_it_is_enabled(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    desk.end()
    turn = desk.taken(endpoint)
    gone = Outcome(DeliveryState.FAILED, response_status=410, error="gone", disables=Disabled.GONE)
    desk.run(deliveries.record(turn, turn.deliveries[0], gone))
    desk.run(deliveries.release(turn))
    assert desk.run(webhooks.read_endpoints(desk.tenant))[0].disabled is Disabled.GONE
    assert desk.taken(endpoint, "t2").disabled is Disabled.GONE, "what is still due is not to be posted"
    run = desk.stage.root()
    desk.stage.end(run)
    assert desk.post(run) == 0
    queued = deliveries.queue_again(desk.tenant, endpoint, turn.deliveries[0].delivery_id)
    assert desk.run(queued) is NotQueued.OFF
    assert desk.run(webhooks.enable(desk.tenant, endpoint))
    assert isinstance(desk.run(queued), Delivery)
    assert not desk.run(webhooks.enable(desk.tenant, "wh_none"))
    assert not desk.run(webhooks.enable(desk.tenant, PER_RUN))


def test_one_runs_webhook_that_is_gone_concerns_no_other_runs(desk: Desk) -> None:
    for name in "ab":
        desk.end(own_url=f"https://own.example/{name}")
    turn = desk.taken(desk.log(PER_RUN)[0].lane)
    gone = Outcome(DeliveryState.FAILED, response_status=410, error="gone", disables=Disabled.GONE)
    desk.run(deliveries.record(turn, turn.deliveries[0], gone))
    desk.run(deliveries.release(turn))
    assert desk.taken(turn.lane.name, "t2").disabled is None


@pytest.mark.parametrize("outcome", [DELIVERED, FAILED])
def test_a_delivery_that_is_over_can_be_made_again_under_its_id(desk: Desk, outcome: Outcome) -> None:
    endpoint = desk.endpoint()
    desk.end()
    turn = desk.taken(endpoint)
    [delivery] = turn.deliveries
    desk.run(deliveries.record(turn, delivery, outcome))
    desk.run(deliveries.release(turn))
    assert desk.ready() == []
    queued = desk.run(deliveries.queue_again(desk.tenant, endpoint, delivery.delivery_id))
    assert (queued.state, queued.attempts) == (DeliveryState.PENDING, 0)
    assert desk.taken(endpoint, "t2").deliveries[0].delivery_id == delivery.delivery_id
    for other in (("other", endpoint), (desk.tenant, desk.endpoint("b"))):
        call = deliveries.queue_again(*other, delivery.delivery_id)
        assert desk.run(call) is NotQueued.UNKNOWN


def test_a_pending_delivery_can_be_hurried(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    turn = desk.taken(endpoint)
    desk.run(deliveries.record(turn, turn.deliveries[0], later(3_600_000)))
    desk.run(deliveries.release(turn))
    queued = desk.run(deliveries.queue_again(desk.tenant, endpoint, turn.deliveries[0].delivery_id))
    assert queued.attempts == 1
    assert desk.ready() == [turn.lane]


def test_the_log_is_read_page_by_page_also_while_it_changes(desk: Desk) -> None:
    endpoint = desk.endpoint()
    runs = [desk.end().run_id for _ in range(5)]
    whole = desk.log(endpoint)
    assert sorted(delivery.run_id for delivery in whole) == sorted(runs)
    first = desk.log(endpoint, most=2)
    desk.end()
    place = (first[-1].queued_ms, first[-1].delivery_id)
    assert desk.log(endpoint, most=2, after=place) == whole[2:4]
    desk.run(deliveries.queue_again(desk.tenant, endpoint, first[-1].delivery_id))
    desk.server.zrem(keys.webhook_log(desk.tenant, endpoint), first[-1].delivery_id)
    assert len(desk.log(endpoint, after=place)) <= 4


def test_of_what_is_over_so_much_is_kept_and_of_what_is_pending_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MOST_KEPT", 2)
    endpoint = desk.endpoint()
    for _ in range(5):
        desk.end()
    turn = desk.taken(endpoint)
    for delivery in turn.deliveries[:4]:
        desk.run(deliveries.record(turn, delivery, DELIVERED))
    desk.run(deliveries.release(turn))
    states = sorted(delivery.state.value for delivery in desk.log(endpoint))
    assert states == ["delivered", "delivered", "pending"]


def test_what_is_too_much_for_an_endpoint_fails_at_once_and_shows_in_its_log(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MOST_PENDING", 1)
    endpoint = desk.endpoint()
    desk.end()
    run = desk.end()
    over = [delivery for delivery in desk.log(endpoint) if delivery.state is DeliveryState.FAILED]
    assert [(each.run_id, each.error) for each in over] == [(run.run_id, "backlog_full")]
    assert len(desk.taken(endpoint).deliveries) == 1


def test_a_deleted_endpoint_takes_its_deliveries_with_it_also_while_one_is_made(desk: Desk) -> None:
    endpoint = desk.endpoint()
    for _ in range(3):
        desk.end()
    turn = desk.taken(endpoint)
    assert desk.run(webhooks.drop_endpoint(desk.tenant, endpoint)) == 0
    assert not desk.run(deliveries.record(turn, turn.deliveries[0], FAILED))
    desk.run(deliveries.release(turn))
    assert desk.left() == set()
    assert desk.run(webhooks.drop_endpoint(desk.tenant, endpoint)) == 0, "a repeat changes nothing"


def test_many_deliveries_are_deleted_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_DROPPED_AT_ONCE", 2)
    endpoint = desk.endpoint()
    for _ in range(5):
        desk.end()
    parts = 1
    while desk.run(webhooks.drop_endpoint(desk.tenant, endpoint)) is None:
        parts += 1
    assert (parts, desk.left()) == (3, set())


def test_a_lane_whose_deliveries_expired_is_forgotten(desk: Desk) -> None:
    endpoint = desk.endpoint()
    desk.end()
    [delivery] = desk.log(endpoint)
    desk.server.delete(keys.webhook_message(desk.tenant, delivery.delivery_id))
    assert desk.take(endpoint) is None
    assert desk.ready() == []
    assert desk.log(endpoint) == []
