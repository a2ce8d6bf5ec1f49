"""One blocking connection: the synchronous twin of connection.py, for one OS thread at a time."""

import socket
import ssl
import time

from retinue.contract.errors import StoreUnavailableError
from retinue.store.connections import keepalive, wire
from retinue.store.connections.dial import Dial
from retinue.store.connections.keepalive import Ear, keep_alive
from retinue.store.connections.urls import ServerAddress
from retinue.store.connections.wire import ConnectionCut, Reply, ReplyTimeout

_RECEIVE_BYTES = 65536


class SyncConnection:
    """Sends a block of commands and waits for all of its replies.

    Args:
        dial: How; its time for a reply is for all replies of one block.
        address: Where.
        connect_timeout_s: Seconds for connecting; None = the dial's.

    Raises:
        StoreUnavailableError: The server cannot be reached, is not ready or refuses the credentials.
    """

    def __init__(self, dial: Dial, address: ServerAddress, connect_timeout_s: float | None = None) -> None:
        connect_s = dial.connect_timeout_s if connect_timeout_s is None else connect_timeout_s
        self.timeout_s = dial.timeout_s
        self.reader = wire.new_reader()
        self._used_at = 0.0
        self.socket = _open_socket(address, connect_s)
        self._ear = Ear(self.socket.fileno())
        try:
            commands = wire.greeting(address, dial.client_name, ask_role=dial.wants_primary)
            packed = b"".join(map(wire.pack, commands))
            replies = self.exchange(packed, len(commands), connect_s)
            wire.check_greeting(address, commands, replies)
        except ConnectionCut as cut:
            raise StoreUnavailableError(f"{address} cannot be reached: {cut}") from None
        except BaseException:
            self.close()
            raise

    def exchange(self, packed: bytes, count: int, timeout_s: float | None = None) -> list[Reply]:
        """Send commands and collect their replies.

        Args:
            packed: The commands as they go over the wire.
            count: How many replies belong to them.
            timeout_s: Seconds for all of them; None = the connection's own.

        Raises:
            ConnectionCut: The connection is of no more use and has been closed. Any other exception
                that interrupts the wait (a signal's, a killed greenlet's) closes it too: a reply that
                is still under way must never meet the next command.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        replies: list[Reply] = []
        received = False
        try:
            if self.socket.gettimeout() != limit_s:
                self.socket.settimeout(limit_s)  # a system call of its own
            self.socket.sendall(packed)
            while len(replies) < count:
                reply = self.reader.gets()
                if reply is not wire.INCOMPLETE:
                    replies.append(reply)
                    continue
                if received:
                    self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self.socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionCut("the server closed the connection")
                received = True
                self.reader.feed(data)
        except TimeoutError:
            self.close()
            raise ReplyTimeout(f"no reply within {limit_s:.3g} s") from None
        except (OSError, wire.ProtocolError) as error:
            self.close()
            raise ConnectionCut(f"connection lost: {error}") from None
        except BaseException:
            self.close()
            raise
        if any(map(wire.drops_connection, replies)):
            self.close()
        self._used_at = time.monotonic()
        return replies

    def send(self, packed: bytes) -> None:
        """Send commands whose replies ``receive`` will bring.

        Args:
            packed: The commands as they go over the wire.

        Raises:
            OSError: The connection is lost.
        """
        self.socket.settimeout(self.timeout_s)
        self.socket.sendall(packed)

    def receive(self) -> list[Reply]:
        """Take what has arrived, without waiting.

        Raises:
            ConnectionCut: The server closed the connection.
            OSError: The connection is lost.
        """
        if self.socket.gettimeout() != 0:
            self.socket.setblocking(False)
        replies: list[Reply] = []
        try:
            while data := self.socket.recv(_RECEIVE_BYTES):
                self.reader.feed(data)
                while (reply := self.reader.gets()) is not wire.INCOMPLETE:
                    replies.append(reply)
                # A TLS socket gives a record at a time, and may hold another that no selector shows.
                if len(data) < _RECEIVE_BYTES and not isinstance(self.socket, ssl.SSLSocket):
                    return replies
        except (BlockingIOError, ssl.SSLWantReadError):
            return replies
        raise ConnectionCut("the server closed the connection")

    @property
    def usable(self) -> bool:
        """Whether it is open, in step and silent: an idle connection with something to read has ended."""
        if self.socket.fileno() < 0 or self.reader.has_data():
            return False
        if not self._ear.hears():
            return True
        try:
            self.socket.setblocking(False)
            self.socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        self.close()
        return False

    def answers(self, limit_s: float) -> bool:
        """Whether the server is there; after a silence it is asked, and an unanswered question closes this.

        Args:
            limit_s: Seconds for the answer.
        """
        if time.monotonic() - self._used_at < keepalive.ASK_AFTER_S:
            return True
        try:
            self.exchange(wire.pack(("PING",)), 1, limit_s)
        except ConnectionCut:
            return False
        return self.socket.fileno() >= 0

    def close(self) -> None:
        """Close the socket; twice does no harm."""
        self.socket.close()


def _open_socket(address: ServerAddress, connect_timeout_s: float) -> socket.socket:
    try:
        if address.path is not None:
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                opened.settimeout(connect_timeout_s)
                opened.connect(address.path)
            except BaseException:
                opened.close()
                raise
            return opened
        opened = socket.create_connection((address.host, address.port), timeout=connect_timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(opened)
        if address.tls is None:
            return opened
        try:
            return address.tls.context().wrap_socket(opened, server_hostname=address.host)
        except BaseException:
            opened.close()
            raise
    except TimeoutError:
        raise StoreUnavailableError(f"{address} does not answer within {connect_timeout_s:.3g} s") from None
    except OSError as error:
        raise StoreUnavailableError(f"{address} cannot be reached: {error}") from None
