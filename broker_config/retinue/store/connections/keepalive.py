"""How a connection is found out that died without a word, such as one whose peer lost its power.

The kernel asks on behalf of an idle connection, and gives one up on which something sent is not acknowledged;
before one is used that has been silent for a while, a PING goes first. So what is sent next is not lost, and
nobody has to wonder whether it was carried out.
"""

import select
import socket
from collections.abc import Mapping
from typing import Final

ASK_AFTER_S = 5.0
"""Seconds of silence after which a connection is asked for a sign of life before its next use."""


def keepalive_options(*, idle_s: int, every_s: int, times: int) -> dict[int, int]:
    """Socket options of the level TCP by which the kernel ends a connection, as far as it knows them.

    Args:
        idle_s: Seconds of silence after which it asks.
        every_s: Seconds between questions.
        times: Unanswered questions that end the connection.
    """
    options = {
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPINTVL": every_s,
        "TCP_KEEPCNT": times,
        # A connection on which something is under way is not asked but sent to again, and by default for a
        # quarter of an hour. This makes it as long as for an idle one, in milliseconds.
        "TCP_USER_TIMEOUT": (idle_s + every_s * times) * 1000,
    }
    return {getattr(socket, name): value for name, value in options.items() if hasattr(socket, name)}


KEEPALIVE_OPTIONS: Final = keepalive_options(idle_s=5, every_s=2, times=3)
"""Those of connections to the store and the broker: dead after 11 s."""


def keep_alive(opened: socket.socket, options: Mapping[int, int] = KEEPALIVE_OPTIONS) -> None:
    """Has the kernel end a TCP connection whose peer has neither answered nor acknowledged anything for long.

    Args:
        opened: The socket; the ones of an asyncio transport serve as well.
        options: How long that is.
    """
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in options.items():
        opened.setsockopt(socket.IPPROTO_TCP, option, value)


class Ear:
    """Tells whether something has come on a socket, its end included, without taking it.

    Args:
        descriptor: The socket's.
    """

    __slots__ = ("_poll",)

    def __init__(self, descriptor: int) -> None:
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(descriptor, select.POLLIN)

    def hears(self) -> bool:
        """Whether there is something to read; where the system cannot say, True."""
        return self._poll is None or bool(self._poll.poll(0))
