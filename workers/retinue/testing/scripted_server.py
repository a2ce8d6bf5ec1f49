"""The scripted server: a real HTTP server in a daemon OS thread, with a loop of its own.

It has a thread and a loop of its own so that a test that blocks, or blocks its own event loop, is
still served.
"""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

from aiohttp import web

from retinue.testing.book import ScriptBook
from retinue.testing.control import add_control_routes
from retinue.testing.delivery import Delivery, error_response
from retinue.testing.faults import ErrorReply, Fault, bad_request, unauthorized
from retinue.testing.record import RecordedRequest, RequestRecord
from retinue.testing.request import Api, ScriptedRequest, read_request
from retinue.testing.script_file import add_scripts
from retinue.testing.scripts import Condition, CountedFault, FaultScope, Script, TurnCount
from retinue.testing.transcript import find_fault

_BODY_MAX_BYTES = 256 * 1024 * 1024
# Thousands of clients may connect within one loop tick.
_BACKLOG = 4096
# What handlers get to end by themselves; to aiohttp 0 would mean for ever.
_STOP_GRACE_S = 0.01


class ScriptedServer:
    """An OpenAI-compatible server that answers from scripts.

    Use it as a context manager, or call `start` and `stop`. Scripts may be added before and while
    it runs:

        with ScriptedServer() as server:
            script = server.script("researcher").call("search_handbook", {"query": "${user}"})
            script.then("The handbook says: ${results}").fault(rate_limited(retry_after_s=1))
            client = OpenAI(base_url=server.base_url, api_key="any")
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        latency_s: float = 0.0,
        models: tuple[str, ...] = ("scripted",),
        api_key: str | None = None,
        check_history: bool = True,
        keep_bodies: bool = True,
    ) -> None:
        """Prepare a server that does not listen yet.

        Args:
            port: 0 = a free one.
            latency_s: seconds before the first byte of every turn that sets no pace of its own.
            models: what /v1/models lists; requests may name any model.
            api_key: if set, requests with another key get 401.
            check_history: refuse, as the real API does, histories in which a tool call has no
                result or a result has no call.
            keep_bodies: False saves memory in long benchmarks; `requests()` then has no bodies.
        """
        self.models = models
        self._host, self._port = host, port
        self._latency_s = latency_s
        self._api_key = api_key
        self._check_history = check_history
        self._book = ScriptBook()
        self._record = RequestRecord(keep_bodies=keep_bodies)
        self._gates: dict[str, asyncio.Event] = {}
        self._released: set[str] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """Root of the server, without a slash at its end."""
        return f"http://{self._host}:{self._port}"

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as base URL."""
        return f"{self.url}/v1"

    def script(
        self, agent: str, *, when: Condition | None = None, count: TurnCount = TurnCount.TOTAL
    ) -> Script:
        """Begin a script for the agent whose system prompt says "You are <agent>" or names it.

        Args:
            when: a further condition (a Match, or any function of the request); such a script is
                preferred to the agent's script without one.
        """
        return self._book.add(Script(agent, when, count), agent=agent)

    def script_where(self, name: str, when: Condition, *, count: TurnCount = TurnCount.TOTAL) -> Script:
        """Begin a script for requests that meet a condition and that no agent's script takes."""
        return self._book.add(Script(name, when, count), agent=None)

    def fault(self, fault: Fault, *, times: int | None = 1, scope: FaultScope = FaultScope.SHARED) -> None:
        """Let the first `times` requests to any script fail (None = always)."""
        self._book.add_fault(CountedFault(fault, times, scope))

    def load(self, scripts: Mapping[str, Any]) -> None:
        """Add scripts given as JSON data, in the form of a script file.

        Raises:
            ScriptError: the data is not a script file; says where.
        """
        add_scripts(self._book, scripts)

    def requests(self, agent: str | None = None) -> tuple[RecordedRequest, ...]:
        """The requests so far in order of arrival, of one agent (script name) or of all."""
        return self._record.all(agent)

    def count(self, agent: str | None = None) -> int:
        """How many requests arrived."""
        return len(self._record.all(agent))

    def in_flight(self, agent: str | None = None) -> int:
        """How many requests are being answered now."""
        return self._record.in_flight(agent)

    def peak(self, agent: str | None = None) -> int:
        """The most requests that were in flight at once."""
        return self._record.peak(agent)

    def forget(self) -> None:
        """Drop finished requests from the record and start the peaks anew."""
        self._record.forget()

    def wait_for(self, predicate: Callable[["ScriptedServer"], bool], timeout_s: float = 10.0) -> None:
        """Block until the predicate holds; it is looked at whenever a request arrives or ends.

        Raises:
            TimeoutError: it does not hold after `timeout_s` seconds.
        """
        if not self._record.wait(lambda: predicate(self), timeout_s):
            raise TimeoutError(self._late(timeout_s))

    async def wait_for_async(
        self, predicate: Callable[["ScriptedServer"], bool], timeout_s: float = 10.0
    ) -> None:
        """The async twin of `wait_for`."""
        if not await self._record.wait_async(lambda: predicate(self), timeout_s):
            raise TimeoutError(self._late(timeout_s))

    def release(self, gate: str) -> None:
        """Let all turns pass that are or will be held at the gate."""
        self._released.add(gate)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._gate(gate).set())

    def start(self) -> "ScriptedServer":
        """Listen; returns when requests are accepted. After a `stop`, listens on the same port again."""
        listener = socket.create_server((self._host, self._port), backlog=_BACKLOG)
        self._port = listener.getsockname()[1]
        ready: Future[None] = Future()

        def run() -> None:
            try:
                with listener:
                    asyncio.run(self._serve(listener, ready))
            except Exception as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        self._thread = threading.Thread(target=run, name="scripted-server", daemon=True)
        self._thread.start()
        ready.result()
        return self

    def stop(self) -> None:
        """Close all connections and wait for the thread to end; a second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            thread.join()
            self._loop = None

    def __enter__(self) -> "ScriptedServer":
        """Start the server."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server."""
        self.stop()

    async def _serve(self, listener: socket.socket, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        # Events belong to one loop, and a server may be started again after a stop.
        self._stopping = asyncio.Event()
        self._gates = {}
        app = web.Application(client_max_size=_BODY_MAX_BYTES)
        app.router.add_post("/v1/chat/completions", partial(self._answer, Api.CHAT_COMPLETIONS))
        app.router.add_post("/v1/responses", partial(self._answer, Api.RESPONSES))
        app.router.add_get("/v1/models", self._list_models)
        add_control_routes(app, self, self._record)
        # Cancellation tells a handler that its client left: without it a held turn would wait on.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_STOP_GRACE_S
        )
        await runner.setup()
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()
        ready.set_result(None)
        await self._stopping.wait()
        await runner.cleanup()

    async def _answer(self, api: Api, http: web.Request) -> web.StreamResponse:
        if self._api_key is not None and http.headers.get("Authorization") != f"Bearer {self._api_key}":
            return self._refuse(api, unauthorized())
        try:
            headers = {name.lower(): value for name, value in http.headers.items()}
            request = read_request(api, json.loads(await http.read()), headers)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            return self._refuse(api, bad_request(f"We could not parse your request: {error!r}"))
        return await self._play(http, request)

    def _refuse(self, api: Api, error: ErrorReply) -> web.Response:
        """Answer, and record, a request that is not looked into."""
        recorded = RecordedRequest(agent=None, api=api, status=error.status, problem=error.message)
        self._record.begin(recorded)
        self._record.end(recorded)
        return error_response(error)

    async def _play(self, http: web.Request, request: ScriptedRequest) -> web.StreamResponse:
        broken = find_fault(request) if self._check_history else None
        selection = self._book.select(request) if broken is None else self._book.refuse(request, broken)
        recorded = RecordedRequest(
            agent=selection.script,
            api=request.api,
            model=request.model,
            stream=request.stream,
            turn=selection.turn,
            fault=selection.fault_name,
            problem=selection.problem,
            request=request,
        )
        self._record.begin(recorded)
        try:
            if selection.reply.gate is not None:
                await self._gate(selection.reply.gate).wait()
            return await Delivery.of(http, request, recorded, selection, self._latency_s).send()
        except (asyncio.CancelledError, ConnectionError):
            recorded.disconnected = not self._stopping.is_set()
            raise
        finally:
            self._record.end(recorded)

    def _gate(self, name: str) -> asyncio.Event:
        """The event of a gate; called on the server's loop only."""
        event = self._gates.setdefault(name, asyncio.Event())
        if name in self._released:
            event.set()
        return event

    async def _list_models(self, _http: web.Request) -> web.Response:
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "script"} for name in self.models]
        return web.json_response({"object": "list", "data": listed})

    def _late(self, timeout_s: float) -> str:
        seen = [f"{r.agent}/{r.turn}: {r.status}" for r in self._record.all()[-20:]]
        return f"condition not met after {timeout_s:g} s (pid {os.getpid()}); last requests: {seen}"
