"""How redis-py and kombu spell a store's address, and when two addresses are one place.

The two libraries agree on `redis://` and `rediss://` only: a unix socket is `unix:///path?db=1` to
redis-py and `redis+socket:///path?virtual_host=1` to kombu. For Sentinel kombu has a form
of its own, and takes the service's name as an option. What a URL means is in store/connections/urls.py and
store/connections/sentinel_urls.py.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from retinue.store.connections.sentinel_urls import SentinelAddress, StoreAddress
from retinue.store.connections.urls import ServerAddress

_SENTINEL_TIMEOUT_S = 1.0
_KOMBU_ONLY = frozenset({"connect_timeout", "heartbeat", "insist", "login_method"})


def for_redis(address: ServerAddress) -> str:
    """The URL in redis-py's spelling, without the options that only kombu takes."""
    options = [(name, value) for name, value in address.options if name not in _KOMBU_ONLY]
    return _url(address, "unix", ("db", str(address.db)), options)


def for_links(address: StoreAddress) -> str:
    """The URL as our own links read it, which redis-py reads too unless Sentinel is asked."""
    return address.url if isinstance(address, SentinelAddress) else for_redis(address)


def for_kombu(address: StoreAddress) -> str:
    """The URL in kombu's spelling, with its own options and those of TLS.

    kombu fails on any other; it takes redis-py's time-outs and the like as transport options only. Of
    several sentinels it takes the next one's URL whole, so each carries the credentials and the database.
    """
    if isinstance(address, SentinelAddress):
        hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in address.sentinels)
        return ";".join(f"sentinel://{address.user_info}{host}/{address.db}" for host in hosts)
    options = [
        (name, value) for name, value in address.options if name in _KOMBU_ONLY or name.startswith("ssl_")
    ]
    return _url(address, "redis+socket", ("virtual_host", str(address.db)), options)


def sentinel_options(address: SentinelAddress) -> dict[str, Any]:
    """What kombu must be told beside the URL: the service, and how to ask a sentinel.

    Without a retry policy of its own, redis-py asks a sentinel that is gone for ten seconds.
    """
    # Who only reads settings needs none of redis-py.
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    asking: dict[str, Any] = {
        "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
        "socket_timeout": _SENTINEL_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
    }
    if address.sentinel_password is not None:
        asking |= {"username": address.sentinel_username, "password": address.sentinel_password}
    return {"master_name": address.service, "sentinel_kwargs": asking}


def place(address: StoreAddress) -> tuple[str, int, int]:
    """Server and database without credentials: equal places are the same keys."""
    if isinstance(address, SentinelAddress):
        sentinels = sorted(f"{host.lower()}:{port}" for host, port in address.sentinels)
        return (f"{address.service}@{','.join(sentinels)}", 0, address.db)
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
