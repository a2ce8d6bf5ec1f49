"""How redis-py and kombu spell a server's address, and when two addresses are one place.

The two libraries agree on `redis://` and `rediss://` only: a unix socket is `unix:///path?db=1` to
redis-py and `redis+socket:///path?virtual_host=1` to kombu. What a URL means is in store/urls.py.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from retinue.store.urls import ServerAddress

_KOMBU_ONLY = frozenset({"connect_timeout", "heartbeat", "insist", "login_method"})


def for_redis(address: ServerAddress) -> str:
    """The URL in redis-py's spelling, without the options that only kombu takes."""
    options = [(name, value) for name, value in address.options if name not in _KOMBU_ONLY]
    return _url(address, "unix", ("db", str(address.db)), options)


def for_kombu(address: ServerAddress) -> str:
    """The URL in kombu's spelling, with its own options and those of TLS.

    kombu fails on any other; it takes redis-py's time-outs and the like as transport options only.
    """
    options = [
        (name, value) for name, value in address.options if name in _KOMBU_ONLY or name.startswith("ssl_")
    ]
    return _url(address, "redis+socket", ("virtual_host", str(address.db)), options)


def place(address: ServerAddress) -> tuple[str, int, int]:
    """Server and database without credentials: equal places are the same keys."""
    if address.path is not None:
        return (address.path, 0, address.db)
    host = address.host.lower()
    return ("127.0.0.1" if host == "localhost" else host, address.port, address.db)


def _url(
    address: ServerAddress, unix_scheme: str, database: tuple[str, str], options: list[tuple[str, str]]
) -> str:
    if address.path is not None:
        query = urlencode([database, *options])
        return f"{unix_scheme}://{_user_info(address)}{quote(address.path)}?{query}"
    scheme = "rediss" if address.tls is not None else "redis"
    host = f"[{address.host}]" if ":" in address.host else address.host
    url = f"{scheme}://{_user_info(address)}{host}:{address.port}/{address.db}"
    return f"{url}?{urlencode(options)}" if options else url


def _user_info(address: ServerAddress) -> str:
    if address.username is None and address.password is None:
        return ""
    password = "" if address.password is None else ":" + quote(address.password, safe="")
    return f"{quote(address.username or '', safe='')}{password}@"
