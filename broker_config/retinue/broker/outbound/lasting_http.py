"""How an HTTP server is found out that is gone without a word, while an answer is waited for.

A model may think for minutes, and nothing is sent meanwhile: only the kernel can tell, if it is told to
ask. It is more patient here than with the store, since a call that is given up is paid again.
"""

import socket
from typing import Final

from retinue.store.connections.keepalive import keepalive_options

HTTP_OPTIONS: Final = keepalive_options(idle_s=30, every_s=10, times=3)
"""Socket options of the level TCP: a server that acknowledges nothing is given up after a minute."""


def socket_options() -> list[tuple[int, int, int]]:
    """The options as httpx sets them: each with its level."""
    tcp = [(socket.IPPROTO_TCP, option, value) for option, value in HTTP_OPTIONS.items()]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *tcp]
