"""Deliveries of webhooks: what each endpoint is told of each end, once for all, and what came of it.

A delivery waits in a lane, with all others to the same place. One process at a time works on a lane, so that
a place that hangs keeps nobody but itself waiting; a process that dies leaves its lane to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from retinue.store import keys
from retinue.store.call import CommandCall, ScriptCall, mapping, text, texts, unexpected
from retinue.store.operations.webhooks import PER_RUN, Disabled, Secrets
from retinue.store.record import Record
from retinue.store.scripts import script

MOST_PENDING: Final = 10_000
"""Pending deliveries of an endpoint; more than these fail at once."""

MOST_KEPT: Final = 1_000
"""Other deliveries that an endpoint keeps; the oldest go first, and all of them after a week."""


class DeliveryState(StrEnum):
    """What became of a delivery."""

    PENDING = "pending"  # it is still to be made, or to be tried again
    DELIVERED = "delivered"  # a status from 200 to 299 was answered
    FAILED = "failed"  # it is given up


_LETTERS: Final = {DeliveryState.PENDING: "p", DeliveryState.DELIVERED: "d", DeliveryState.FAILED: "f"}
_STATES: Final = {letter: state for state, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One endpoint's copy of one run's end.

    Args:
        delivery_id: The same for each attempt, and for a redelivery.
        fields: As the store has them; keys.py explains them.
    """

    delivery_id: str
    fields: Mapping[str, str] = field(repr=False)

    @property
    def webhook_id(self) -> str:
        return self.fields["ep"]

    @property
    def lane(self) -> str:
        return self.fields["ln"]

    @property
    def own_url(self) -> str | None:
        """The URL of a run's own webhook; None = its endpoint's."""
        return self.fields.get("ul")

    @property
    def run_id(self) -> str:
        return self.fields["run"]

    @property
    def session_id(self) -> str:
        return self.fields["sess"]

    @property
    def agent(self) -> str:
        return self.fields["ag"]

    @property
    def parent_id(self) -> str | None:
        return self.fields["par"] or None

    @property
    def run_state(self) -> str:
        return self.fields["rs"]

    @property
    def classification(self) -> str | None:
        return self.fields["cls"] or None

    @property
    def ended_ms(self) -> int:
        return int(self.fields["fi"])

    @property
    def state(self) -> DeliveryState:
        return _STATES[self.fields["st"]]

    @property
    def attempts(self) -> int:
        """Made so far, or since it was last queued again."""
        return int(self.fields["n"])

    @property
    def queued_ms(self) -> int:
        return int(self.fields["qd"])

    @property
    def next_attempt_ms(self) -> int | None:
        """None = it is over."""
        return int(self.fields["nx"]) if "nx" in self.fields and self.state is DeliveryState.PENDING else None

    @property
    def last_attempt_ms(self) -> int | None:
        return int(self.fields["la"]) if "la" in self.fields else None

    @property
    def response_status(self) -> int | None:
        """That the last attempt was answered; None = it was not, or there was none."""
        return int(self.fields.get("code") or 0) or None

    @property
    def duration_ms(self) -> int | None:
        """Of the last attempt."""
        return int(self.fields["dur"]) if self.fields.get("dur") else None

    @property
    def error(self) -> str | None:
        """What the last attempt failed with."""
        return self.fields.get("err") or None


@dataclass(frozen=True, slots=True)
class Lane:
    """All pending deliveries to one place: an endpoint, or a host that runs' own webhooks name."""

    tenant: str
    name: str

    @classmethod
    def of_member(cls, member: str) -> Lane:
        """A lane as it stands in the index."""
        return cls(*keys.split_member(member))

    @property
    def webhook_id(self) -> str:
        """Its endpoint's."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Turn:
    """Deliveries that a process may make.

    Args:
        lane: Where they stand.
        token: Whoever writes down what came of them shows it.
        url: The endpoint's; None = each has its own.
        secrets: What signs them.
        disabled: Why the endpoint is not to be told; None = it is.
        deliveries: At least one.
    """

    lane: Lane
    token: str
    url: str | None
    secrets: Secrets
    disabled: Disabled | None
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a delivery.

    Args:
        state: PENDING = it is to be tried again.
        again_ms: How long after now.
        attempted: An attempt was made.
        response_status: That was answered.
        duration_ms: Of the attempt.
        error: What it failed with, one word.
        disables: Why the endpoint, unless it is PER_RUN, is not to be told any more.
    """

    state: DeliveryState
    again_ms: int = 0
    attempted: bool = True
    response_status: int | None = None
    duration_ms: int = 0
    error: str | None = None
    disables: Disabled | None = None


def own_lane(place: str) -> str:
    """The lane of runs' own webhooks to one place.

    Args:
        place: Up to 32 letters and digits that stand for scheme, host and port.
    """
    return f"{PER_RUN}.{place}"


def post(
    tenant: str, run_id: str, record: Record, *, own_url: str | None, own_place: str, first_secret: str
) -> ScriptCall[int]:
    """Queues what webhooks are told of an ended run; a repeat changes nothing.

    Args:
        record: As it was at its end.
        own_url: That its launch names. None = none.
        own_place: As for `own_lane`.
        first_secret: Signs runs' own webhooks, if the tenant has no secret for these yet.

    Returns:
        A call that answers how many deliveries are new.
    """

    def parse(reply: Any) -> int:
        if text(reply[0]) != "OK":
            raise unexpected("post_deliveries", reply)
        return int(reply[1])

    classification = record.classification
    argv = (
        keys.WEBHOOKS,
        tenant,
        run_id,
        record.session_id,
        record.agent,
        record.parent_id or "",
        record.state.value,
        classification.value if classification else "",
        record.finished_ms or 0,
        own_url or "",
        own_lane(own_place),
        first_secret,
        MOST_PENDING,
        MOST_KEPT,
    )
    return ScriptCall(script("post_deliveries"), (keys.webhook_endpoints(tenant),), argv, parse)


def read_ready(most: int) -> ScriptCall[list[Lane]]:
    """Lanes whose turn it is, longest waiting first."""

    def parse(reply: Any) -> list[Lane]:
        return [Lane.of_member(member) for member in texts(reply)]

    return ScriptCall(script("ready_lanes"), (_DUE,), (most,), parse)


def take(lane: Lane, token: str, *, held_ms: int, most: int) -> ScriptCall[Turn | None]:
    """Takes a lane, and of its deliveries those that are due; None = there is nothing to do here and now.

    Args:
        token: Random; a repeat under it gets the same answer.
        held_ms: How long nobody else gets it.
        most: Deliveries.
    """

    def parse(reply: Any) -> Turn | None:
        match text(reply[0]):
            case "TAKEN":
                at = mapping(reply[1])
                found = tuple(Delivery(text(name), mapping(fields)) for name, fields in reply[2:])
                off = Disabled(at["why"]) if at.get("st") == "off" else None
                secrets = Secrets(at["sec"], at.get("old"), int(at.get("till") or 0))
                return Turn(lane, token, at.get("ul"), secrets, off, found)
            case "HELD" | "EMPTY":
                return None
            case _:
                raise unexpected("take_lane", reply)

    argv = (keys.WEBHOOKS, lane.tenant, lane.name, lane.webhook_id, token, held_ms, most)
    return ScriptCall(script("take_lane"), (_DUE,), argv, parse)


def release(turn: Turn) -> ScriptCall[None]:
    """Lets go of a lane."""
    argv = (keys.WEBHOOKS, turn.lane.tenant, turn.lane.name, turn.token)
    return ScriptCall(script("release_lane"), (_DUE,), argv, lambda _: None)


def record(turn: Turn, delivery: Delivery, outcome: Outcome) -> ScriptCall[bool]:
    """Writes down what came of a delivery.

    Returns:
        A call that answers whether it did; False = it stands there already, another process makes the
        delivery, or it was deleted.
    """

    def parse(reply: Any) -> bool:
        return text(reply[0]) == "OK"

    # What a run's own URL answers concerns no other run's.
    disables = outcome.disables if delivery.own_url is None else None
    argv = (
        keys.WEBHOOKS,
        turn.lane.tenant,
        delivery.delivery_id,
        turn.token,
        _LETTERS[outcome.state],
        outcome.again_ms,
        int(outcome.attempted),
        outcome.response_status or "",
        outcome.duration_ms,
        outcome.error or "",
        disables.value if disables else "",
        MOST_KEPT,
    )
    key = keys.webhook_message(turn.lane.tenant, delivery.delivery_id)
    return ScriptCall(script("record_delivery"), (key,), argv, parse)


class NotQueued(StrEnum):
    """Why a delivery was not queued again."""

    UNKNOWN = "UNKNOWN"  # the endpoint has none of that id, any more
    OFF = "OFF"  # its endpoint is disabled


def queue_again(tenant: str, webhook_id: str, delivery_id: str) -> ScriptCall[Delivery | NotQueued]:
    """Makes a delivery due at once, whether it is over or pending."""

    def parse(reply: Any) -> Delivery | NotQueued:
        match text(reply[0]):
            case "OK":
                return Delivery(delivery_id, mapping(reply[1]))
            case "UNKNOWN" | "OFF" as reason:
                return NotQueued(reason)
            case _:
                raise unexpected("redeliver", reply)

    argv = (keys.WEBHOOKS, tenant, webhook_id, delivery_id)
    return ScriptCall(script("redeliver"), (keys.webhook_message(tenant, delivery_id),), argv, parse)


def read_page(
    tenant: str, webhook_id: str, *, after: tuple[int, str] | None, most: int
) -> ScriptCall[list[Delivery]]:
    """Deliveries of an endpoint, the last queued first; an expired one may make a page shorter.

    Args:
        after: `queued_ms` and id of the last of the page before.
        most: Longest answer.
    """

    def parse(reply: Any) -> list[Delivery]:
        return [Delivery(text(name), mapping(fields)) for name, fields in reply if fields]

    queued_ms, last = after or (0, "")
    argv = (keys.WEBHOOKS, tenant, last, queued_ms, most)
    return ScriptCall(script("read_deliveries"), (keys.webhook_log(tenant, webhook_id),), argv, parse)


def read_one(tenant: str, delivery_id: str) -> CommandCall[Delivery | None]:
    """One delivery; None = it is not kept, any more."""

    def parse(reply: Any) -> Delivery | None:
        fields = mapping(reply)
        return Delivery(delivery_id, fields) if fields else None

    return CommandCall(("HGETALL", keys.webhook_message(tenant, delivery_id)), parse)


_DUE: Final = f"{keys.WEBHOOKS}due"
