"""A way to the server on which replies get lost: the command arrives, and the connection is cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """Forwards to a server on 127.0.0.1, until it is told to lose replies.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._losses = 0
        self._word = b""
        self._listening = True
        self._sockets: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._door.getsockname()[1]}/0"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_replies(self, count: int, *, to: bytes) -> None:
        """Cuts the connection after the next commands that contain a word have reached the server."""
        self._losses, self._word = count, to

    def close_door(self) -> None:
        """From now on nobody gets through."""
        self._listening = False
        with suppress(OSError):
            # Wakes the thread that accepts.
            socket.create_connection(self._door.getsockname(), 1).close()
        self._door.close()

    def close(self) -> None:
        self.close_door()
        for end in self._sockets:
            _shut(end)

    def _accept(self) -> None:
        while self._listening:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            if not self._listening:
                client.close()
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            self._sockets += [client, server]
            losing = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, losing), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client, losing), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._losses > 0 and self._word in data:
                    self._losses -= 1
                    losing.set()
                server.sendall(data)
        _shut(server)

    def _answer(self, server: socket.socket, client: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if losing.is_set():
                    break
                client.sendall(data)
        _shut(client)
        _shut(server)


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
