"""Event streams over plain sockets: a thousand of them in one test, and clients that misbehave."""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.unit.http.sse import Reader

_MOST_OPEN_FILES = 8_192


class RawStream:
    """One connection that asked for a stream.

    Attributes:
        status: Of the answer.
        headers: By lower-case name.
        reader: The events that came so far.
        is_whole: The server closed the answer in good order.
    """

    def __init__(self, incoming: asyncio.StreamReader, outgoing: asyncio.StreamWriter) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self.status = 0
        self.headers: dict[str, str] = {}
        self.reader = Reader()
        self.is_whole = False

    async def read_head(self) -> None:
        """Reads status and headers."""
        head = (await self._incoming.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }

    async def read_on(self) -> bool:
        """Reads one piece; False = there is no more."""
        try:
            size = int((await self._incoming.readline()).strip() or b"-1", 16)
            if size > 0:
                self.reader.feed((await self._incoming.readexactly(size + 2))[:-2])
                return True
            self.is_whole = size == 0
        except (OSError, asyncio.IncompleteReadError):
            pass
        return False

    async def until(self, kind: str, count: int = 1) -> None:
        """Reads until so many events of a kind have come."""
        while self.reader.kinds().count(kind) < count:
            assert await self.read_on(), (kind, self.reader.kinds())

    async def until_over(self) -> Reader:
        """Reads until the server closes."""
        while await self.read_on():
            pass
        await self.close()
        return self.reader

    def read_nothing(self) -> None:
        """Leaves what comes where it is: in the buffers of both systems, and then in the server."""
        self._outgoing.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]

    async def close(self) -> None:
        """Goes away, whatever is still to come."""
        self._outgoing.transport.abort()
        with suppress(OSError):
            await self._outgoing.wait_closed()


class RawClients:
    """Asks API processes for streams, and leaves no connection behind.

    Args:
        key: Sent with each request.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._made: list[RawStream] = []

    async def ask(
        self, port: int, run_id: str, *, query: str = "", last_event_id: int | None = None
    ) -> RawStream:
        """Asks for a run's stream, and reads nothing yet."""
        incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
        resumed = "" if last_event_id is None else f"Last-Event-ID: {last_event_id}\r\n"
        outgoing.write(
            f"GET /v1/runs/{run_id}/events/stream{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {self._key}\r\nAccept: text/event-stream\r\n{resumed}\r\n".encode()
        )
        self._made.append(RawStream(incoming, outgoing))
        return self._made[-1]

    async def open(
        self, port: int, run_id: str, *, query: str = "", last_event_id: int | None = None
    ) -> RawStream:
        """Asks, and reads the head of the answer."""
        made = await self.ask(port, run_id, query=query, last_event_id=last_event_id)
        await made.read_head()
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        for made in self._made:
            await made.close()


def allow_many_files() -> None:
    """Lets this process have a thousand connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connections_to(pid: int, port: int) -> int:
    """How many TCP connections a process has to a local port."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(entry))
        except OSError:
            continue  # closed meanwhile
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        remote_port, is_open = int(words[2].partition(":")[2], 16), words[3] == "01"
        count += remote_port == port and is_open and f"socket:[{words[9]}]" in sockets
    return count


def resident_bytes(pid: int) -> int:
    """The memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()
