"""Which of the sentinels' answers is believed, and how long the missing ones are waited for."""

from __future__ import annotations

import pytest

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.primary import GRACE_S, Named, Replies, read_answer
from retinue.store.connections.sentinel_urls import SentinelAddress
from retinue.store.connections.urls import ServerAddress

SERVICE = SentinelAddress.parse("sentinel://:pw@h1,h2,h3/shop")
OLD, NEW = Named("old", 1, 4), Named("new", 2, 5)


def replies_of(*answers: Named | StoreUnavailableError) -> Replies:
    replies = Replies(SERVICE)
    for answer in answers:
        replies.add(answer)
    return replies


def reply(**fields: object) -> list[wire.Reply]:
    told = {"ip": "db", "port": 7, "config-epoch": 3, "flags": "master"} | fields
    return [word.encode() for pair in told.items() for word in (pair[0], str(pair[1]))]


def test_the_newest_configuration_wins_whoever_answers_first() -> None:
    assert replies_of(OLD, NEW).primary() == ServerAddress("new", 2, password="pw")
    assert replies_of(NEW, OLD).primary().host == "new"


def test_a_majority_that_agrees_is_enough_and_one_answer_is_waited_on_for_a_moment() -> None:
    assert replies_of(NEW, NEW).enough
    one = replies_of(OLD)
    assert not one.enough
    assert one.wait_s(1.0) == GRACE_S
    assert not replies_of(OLD, NEW).enough
    assert replies_of(OLD, NEW, StoreUnavailableError("away")).enough
    assert replies_of().wait_s(1.0) == 1.0


def test_a_primary_that_the_sentinels_call_down_is_not_tried() -> None:
    down = read_answer(reply(flags="master,s_down,o_down"), "shop")
    with pytest.raises(StoreUnavailableError, match="no replica has taken over yet"):
        replies_of(down, down).primary()
    # One of them alone may be the one that is cut off.
    assert not read_answer(reply(flags="master,s_down"), "shop").is_down


def test_while_most_call_the_primary_down_the_rest_may_know_the_next_one() -> None:
    down = Named("old", 1, 4, is_down=True)
    replies = replies_of(down, down)
    assert not replies.enough
    assert replies.wait_s(1.0) == 1.0
    replies.add(NEW)
    assert replies.enough
    assert replies.primary().host == "new"


def test_an_answer_tells_what_the_doctor_wants_to_know() -> None:
    told = read_answer(reply(**{"num-slaves": 2, "num-other-sentinels": 2, "quorum": 2}), "shop")
    assert told == Named("db", 7, 3, is_down=False, replicas=2, sentinels=3, quorum=2)


def test_a_service_that_no_sentinel_knows_is_named_with_the_mend() -> None:
    error = wire.error_reply("ERR No such master with that name")
    with pytest.raises(StoreUnavailableError, match="No such master") as caught:
        read_answer(error, "shop")
    with pytest.raises(StoreUnavailableError, match="service's name") as told:
        replies_of(StoreUnavailableError("away"), caught.value).primary()
    assert told.value.mend is not None


def test_without_an_answer_the_error_says_why() -> None:
    with pytest.raises(StoreUnavailableError, match="none answered in time"):
        replies_of().primary()
    with pytest.raises(StoreUnavailableError, match="away"):
        replies_of(StoreUnavailableError("away")).primary()
