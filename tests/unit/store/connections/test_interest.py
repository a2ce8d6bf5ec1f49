"""Whom a message wakes, and what is subscribed to: without a server."""

from __future__ import annotations

from threading import Event

from retinue.store.connections.interest import Interests


class Bell:
    """A flag that is no event."""

    def __init__(self) -> None:
        self.rings = 0

    def set(self) -> None:
        self.rings += 1


def message(channel: bytes, text: bytes) -> list[bytes]:
    return [b"message", channel, text]


def test_one_flag_on_many_places_is_set_by_a_message_to_any() -> None:
    interests, bell = Interests(Event), Bell()
    _, new = interests.add([("a", "one"), ("b", "two"), ("a", "three")], bell)
    assert new == [b"a", b"b"]
    for channel, text in ((b"a", b"one DONE"), (b"b", b"two"), (b"a", b"three")):
        interests.receive(message(channel, text))
    interests.receive(message(b"b", b"one"))
    assert bell.rings == 3


def test_it_is_confirmed_once_every_channel_is() -> None:
    interests = Interests(Event)
    interest, _ = interests.add([("a", "k"), ("b", "k")], Bell())
    interests.receive([b"subscribe", b"a", 1])
    assert not interest.confirmed
    interests.receive([b"subscribe", b"b", 2])
    assert interest.confirmed


def test_a_known_channel_is_not_subscribed_to_again() -> None:
    interests = Interests(Event)
    interests.add([("a", "one")], Bell())
    _, new = interests.add([("b", "one"), ("a", "two")], Bell())
    assert new == [b"b"]


def test_what_is_removed_is_set_no_more_and_leaves_its_channels_idle() -> None:
    interests, bell, other = Interests(Event), Bell(), Bell()
    gone, _ = interests.add([("a", "k"), ("b", "k"), ("b", "k")], bell)
    interests.add([("b", "k")], other)
    for name in (b"a", b"b"):
        interests.receive([b"subscribe", name, 1])
    interests.remove(gone, 1.0)
    interests.receive(message(b"a", b"k"))
    interests.receive(message(b"b", b"k"))
    assert (bell.rings, other.rings) == (0, 1)
    assert interests.drop_idle(0.5) == []
    assert interests.drop_idle(1.0) == [b"a"]
