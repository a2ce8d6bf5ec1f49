"""Runs the HTTP API in this process: uvicorn, and an end that keeps nobody waiting."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from contextlib import closing
from types import FrameType
from typing import Final

import uvicorn
from fastapi import FastAPI

from retinue.broker.server.checks import require_server
from retinue.broker.settings import Settings
from retinue.contract import RetinueError, SettingsError
from retinue.http.app import create_app
from retinue.http.entrance import Entrance, prepare_entrance
from retinue.http.middleware.host_check import is_loopback
from retinue.http.protocol import patient
from retinue.http.service import Service
from retinue.http.streams.connection import StreamProtocol, give_up_on_silence

_BACKLOG: Final = 2048


class ApiServer(uvicorn.Server):
    """Uvicorn's server that tells streams and waits to end when it is told to."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends in good order; a second signal at once. The signal is not raised again: an end is no death."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the sockets, then waits for the requests in flight."""
        self._service.stopping.set()
        await super().shutdown(sockets)


def run_server(
    settings: Settings,
    host: str | None = None,
    port: int | None = None,
    *,
    on_listening: Callable[[str, Entrance], None] = lambda _url, _entrance: None,
) -> None:
    """Serves until SIGTERM or SIGINT.

    Args:
        settings: Of the process.
        host: Address to listen on; None = the setting `http.host`.
        port: None = the setting `http.port`; 0 = any free one.
        on_listening: Told the address once it is bound, as in http://127.0.0.1:8580, and how to come in.

    Raises:
        SettingsError: The address cannot be bound, or is open to others and there is no key; or the store
            cannot be used.
        RetinueError: The store does not answer, or a part of the API cannot start.
    """
    settings = listening_on(settings, host, port)
    require_server(settings.required_store_url, durability=settings.durability)
    app = create_app(settings)
    with closing(bind(settings.http.host, settings.http.port)) as listener:
        entrance = prepare_entrance(settings, is_local=is_loopback(listener.getsockname()[0]))
        give_up_on_silence(listener, settings.http.stream_send_timeout_seconds)
        listener.listen(_BACKLOG)
        on_listening(url_of(listener), entrance)
        _allow_many_connections()
        _serve(app, settings, listener)


def listening_on(settings: Settings, host: str | None, port: int | None) -> Settings:
    """The settings with another address; None = as it is."""
    changed = {"host": host, "port": port}
    http = settings.http.model_copy(update={name: each for name, each in changed.items() if each is not None})
    return settings.model_copy(update={"http": http})


def _serve(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        http=patient(StreamProtocol, settings.http.request_timeout_seconds),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # Who asks is told by keys alone, never by an address that a header may claim.
        proxy_headers=False,
        timeout_graceful_shutdown=settings.http.stop_seconds,
    )
    try:
        ApiServer(config, app.state.service).run(sockets=[listener])
    except SystemExit:
        raise RetinueError("the HTTP API could not start: see above") from None


def _allow_many_connections() -> None:
    # Many systems start a process with 1,024, and each stream takes one.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def bind(host: str, port: int) -> socket.socket:
    """A socket on the address, which does not listen yet.

    Raises:
        SettingsError: There is no such address here, or it is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            setting="http.port",
            mend="choose another with --port and --host, or end what listens there",
        ) from None
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a socket is reached, as in http://127.0.0.1:8580."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
