"""The HTTP API over a test's store, on a thread of this process: one for each store and settings."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import uvicorn
from tests.integration.client.patience import wait_until

from retinue.broker.catalogue import AsyncCatalogue
from retinue.broker.keyring_store import AsyncKeyringStore
from retinue.broker.settings import Settings
from retinue.http import create_app
from retinue.http.server import url_of
from retinue.http.service import Service

_READY_S = 60


class ServedApi:
    """Uvicorn with the application.

    Args:
        settings: Of the API's process.
    """

    def __init__(self, settings: Settings) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url_of(self._listener)
        self.port: int = self._listener.getsockname()[1]
        app = create_app(settings)
        self._service: Service = app.state.service
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=1)
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started)

    def forget(self) -> None:
        """The store has been emptied: what was read of it holds no longer."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._forget(), self._loop).result(_READY_S)

    def close(self) -> None:
        self._service.stopping.set()
        self._server.should_exit = True
        self._thread.join(_READY_S)
        self._listener.close()

    def _serve(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._server.serve(sockets=[self._listener]))
        self._loop.close()

    async def _forget(self) -> None:
        connections, settings = self._service.connections(), self._service.settings
        connections.catalogue = AsyncCatalogue(connections.store)
        connections.keyring = AsyncKeyringStore(connections.store, settings.handle_keys)


class ServedApis:
    """Those of a test module, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, ServedApi] = {}

    def over(self, store_url: str, **options: Any) -> ServedApi:
        """The API over a store.

        Args:
            options: Its settings.
        """
        name = f"{store_url} {sorted(options.items())}"
        if name not in self._made:
            http = {"requests_per_minute": 0}
            self._made[name] = ServedApi(Settings.read(store_url=store_url, http=http, **options))
        return self._made[name]

    def close(self) -> None:
        for each in self._made.values():
            each.close()
