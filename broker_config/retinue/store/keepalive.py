"""How a connection is found out that died without a word, such as one whose peer lost its power.

The kernel asks on behalf of an idle connection; before one is used that has been silent for a while, a
PING goes first. So what is sent next is not lost, and nobody has to wonder whether it was carried out.
"""

import select
import socket
from typing import Final

ASK_AFTER_S = 5.0
"""Seconds of silence after which a connection is asked for a sign of life before its next use."""

KEEPALIVE_OPTIONS: Final[dict[int, int]] = {
    getattr(socket, name): value
    # Dead after 5 + 3 x 2 seconds.
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}
"""The kernel's own questions, where they can be set."""


def keep_alive(opened: socket.socket) -> None:
    """Has the kernel end a TCP connection whose peer has not answered it for 11 s.

    Args:
        opened: The socket; the ones of an asyncio transport serve as well.
    """
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE_OPTIONS.items():
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
