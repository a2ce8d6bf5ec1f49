"""A bad way to a server: late, cut, silent, dripping or shut, whenever a test says so.

Bytes pass through one event loop in a thread of its own, so that a method's fault is in force when
the method returns.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_HOST = "127.0.0.1"
_CHUNK_BYTES = 65536
_CALL_TIMEOUT_S = 10.0
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Loss(StrEnum):
    """What becomes of a request that is to be lost."""

    REQUEST = "request"  # cut before the server has seen it
    REPLY = "reply"  # cut after the server has carried it out, before the reply
    AFTER_REPLY = "after_reply"  # cut once the reply has passed
    SILENCE = "silence"  # carried out; no reply and no cut: the connection is half-open from then on


class FaultProxy:
    """Forwards TCP to a server on 127.0.0.1, with the faults that are set; without any, faithfully.

    Args:
        port: The server's.
    """

    def __init__(self, port: int) -> None:
        self._faults = _Faults(port)
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._door: asyncio.Server | None = None
        self.accepted = 0
        """Connections taken so far."""
        self.port = self._run(self._open_door(0))
        """Where it listens, also after `refuse` and `admit`."""

    @property
    def url(self) -> str:
        """Database 0 of the server, by way of this proxy."""
        return f"redis://{_HOST}:{self.port}/0"

    def delay(self, latency_s: float) -> None:
        """From now on bytes arrive so many seconds late, in each direction; 0 = at once."""
        self._set(latency_s=latency_s)

    def trickle(self, chunk_bytes: int, interval_s: float) -> None:
        """From now on replies arrive in pieces of so many bytes, one every so many seconds; 0 = whole."""
        self._set(drip_bytes=chunk_bytes, drip_interval_s=interval_s)

    def lose(self, loss: Loss, *, to: bytes = b"", count: int = 1) -> None:
        """Lose the next requests that contain a word.

        Args:
            loss: How.
            to: The word; empty = any request.
            count: How many of them, 0 = none any more.
        """
        self._set(loss=loss, word=to, losses=count)

    @property
    def losses_left(self) -> int:
        """How many requests are still to be lost."""
        return self._faults.losses

    def reset_connections(self) -> None:
        """End every connection now with a RST to both sides; new ones pass."""
        self._run(self._reset())

    def black_hole(self, *, new_too: bool = False) -> None:
        """From now on the connections that exist carry nothing, and neither side learns of it.

        Args:
            new_too: New connections are taken and carry nothing either, until `heal`.
        """
        self._run(self._swallow(new_too))

    def heal(self) -> None:
        """New connections pass again, and without delay; those that were swallowed stay dead."""
        self._set(swallowing=False, losses=0, latency_s=0.0, drip_bytes=0)
        self.admit()

    def refuse(self) -> None:
        """From now on new connections are refused, as if no server listened; those that exist live on."""
        self._run(self._close_door())

    def admit(self) -> None:
        """Take new connections again, on the same port."""
        if self._door is None:
            self._run(self._open_door(self.port))

    def close(self) -> None:
        """End everything. May be called twice."""
        if self._loop.is_closed():
            return
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_TIMEOUT_S)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _set(self, **faults: Any) -> None:
        async def change() -> None:
            for name, value in faults.items():
                setattr(self._faults, name, value)

        self._run(change())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_TIMEOUT_S)

    async def _open_door(self, port: int) -> int:
        self._door = await asyncio.start_server(self._take, _HOST, port)
        return self._door.sockets[0].getsockname()[1]

    async def _close_door(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(self._faults, reader, writer)
        self._links.add(link)
        # Only `close` cancels, and 3.11 would log it as a fault.
        with suppress(asyncio.CancelledError):
            await link.run()
        self._links.discard(link)

    async def _reset(self) -> None:
        for link in list(self._links):
            link.end(reset=True)

    async def _swallow(self, new_too: bool) -> None:
        self._faults.swallowing = new_too
        for link in self._links:
            link.silent = True

    async def _end(self) -> None:
        await self._close_door()
        here = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class _Faults:
    """What is wrong with the way just now."""

    port: int
    latency_s: float = 0.0
    drip_bytes: int = 0
    drip_interval_s: float = 0.0
    swallowing: bool = False
    loss: Loss = Loss.REPLY
    word: bytes = b""
    losses: int = 0

    def take_loss(self, data: bytes) -> Loss | None:
        """How the request in these bytes is to be lost, if it is."""
        if self.losses <= 0 or self.word not in data:
            return None
        self.losses -= 1
        return self.loss


@dataclass(eq=False)
class _Link:
    """One client's connection and the one to the server that it stands for."""

    faults: _Faults
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    silent: bool = False
    losing: Loss | None = None
    _writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def run(self) -> None:
        """Forward until either side ends; a silent connection ends with the proxy only."""
        self.silent = self.silent or self.faults.swallowing
        self._writers.append(self.writer)
        try:
            server_reader, server_writer = await asyncio.open_connection(_HOST, self.faults.port)
            self._writers.append(server_writer)
            there, back = _Pipe(self.faults, server_writer), _Pipe(self.faults, self.writer, drips=True)
            work = (self._forward(there), self._answer(server_reader, back), there.run(), back.run())
            self._tasks = [asyncio.ensure_future(each) for each in work]
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass  # no server: the client's connection ends
        finally:
            self.end()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def end(self, *, reset: bool = False) -> None:
        """Close both connections.

        Args:
            reset: With a RST instead of a FIN.
        """
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            end = writer.get_extra_info("socket")
            if reset and end is not None and not writer.is_closing():
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            writer.transport.abort()

    async def _forward(self, pipe: _Pipe) -> None:
        tail = b""
        with suppress(OSError):
            while data := await self.reader.read(_CHUNK_BYTES):
                await self._if_heard()
                loss = self.faults.take_loss(tail + data)
                tail = (tail + data)[-max(len(self.faults.word) - 1, 0) :] if self.faults.word else b""
                if loss is Loss.REQUEST:
                    return
                self.losing = self.losing or loss
                pipe.put(data)
                if self.losing is Loss.REPLY:
                    # An end of the stream in place of a cut: the server carries out what it was sent first.
                    pipe.put(b"")
                    await _forever()
        await self._if_heard()
        await pipe.emptied()

    async def _answer(self, server: asyncio.StreamReader, pipe: _Pipe) -> None:
        with suppress(OSError):
            while data := await server.read(_CHUNK_BYTES):
                await self._if_heard()
                if self.losing is Loss.SILENCE:
                    self.silent = True
                    await _forever()
                if self.losing is not Loss.REPLY:
                    pipe.put(data)
                if self.losing is Loss.AFTER_REPLY:
                    await pipe.emptied()
                    return
        await self._if_heard()
        await pipe.emptied()

    async def _if_heard(self) -> None:
        if self.silent:
            await _forever()


class _Pipe:
    """Carries bytes to one side, late or dripping if they have to be."""

    def __init__(self, faults: _Faults, writer: asyncio.StreamWriter, *, drips: bool = False) -> None:
        self._faults = faults
        self._writer = writer
        self._drips = drips
        self._queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    def put(self, data: bytes) -> None:
        """Take bytes; none at all = the end of the stream."""
        due = asyncio.get_running_loop().time() + self._faults.latency_s
        self._queue.put_nowait((due, data))

    async def emptied(self) -> None:
        """Returns once all that was put has been written."""
        await self._queue.join()

    async def run(self) -> None:
        with suppress(OSError):
            while True:
                due, data = await self._queue.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                for piece in self._pieces(data):
                    self._writer.write(piece)
                    await self._writer.drain()
                    if piece is not data:
                        await asyncio.sleep(self._faults.drip_interval_s)
                if not data:
                    self._writer.write_eof()
                self._queue.task_done()

    def _pieces(self, data: bytes) -> list[bytes]:
        size = self._faults.drip_bytes if self._drips else 0
        return [data] if not size else [data[at : at + size] for at in range(0, len(data), size)]


async def _forever() -> None:
    await asyncio.Event().wait()
