"""Which names a request may call this server by.

A page of a stranger can have its own name resolve to 127.0.0.1 and then talk to whatever listens there
(DNS rebinding); its requests bear the stranger's name in their Host header.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from retinue.broker.settings.http import HttpSettings
from retinue.http.problems import Problem

_UNCHECKED_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""They tell nothing, and a prober calls a server by its bare address."""


class HostCheck:
    """Refuses requests that bear a name which is none of this server's.

    Args:
        settings: Where it listens, and its further names.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in _UNCHECKED_PATHS:
            host = Headers(scope=scope).get("host", "")
            if not is_allowed(host, self._settings):
                raise Problem(
                    "HOST_NOT_ALLOWED",
                    421,
                    "the Host header names another server",
                    field="Host",
                    mend="add the name to the setting http.allowed_hosts (RETINUE_HTTP__ALLOWED_HOSTS)",
                )
        await self._app(scope, receive, send)


def is_allowed(host: str, settings: HttpSettings) -> bool:
    """Whether a Host header bears one of the server's names; its port does not matter."""
    name = name_of(host)
    allowed = {each.lower() for each in settings.allowed_hosts}
    if "*" in allowed or (not allowed and not is_loopback(settings.host)):
        return True
    return name in allowed or name == settings.host.lower() or is_loopback(name)


def name_of(host: str) -> str:
    """The name in a Host header, without port, brackets and the root's dot."""
    name = host.strip().lower()
    if name.startswith("["):
        inside, _, rest = name[1:].partition("]")
        return inside if rest[:1] in ("", ":") else name
    return name.partition(":")[0].removesuffix(".")


def is_loopback(name: str) -> bool:
    """Whether a name or address is one of this machine alone."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
