"""Addresses of Redis and Valkey servers, as redis-py and as kombu spell them.

The two libraries agree on `redis://` and `rediss://` only: a unix socket is `unix:///path?db=1` to
redis-py and `redis+socket:///path?virtual_host=1` to kombu, and redis-py reads a database it cannot
parse as 0. Settings and the start-up checks need one reading of both spellings, so it stands here.
"""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

SCHEMES = ("redis", "rediss", "unix", "redis+socket")
"""URL schemes that name one Redis or Valkey server."""

_USER_INFO = re.compile(r"(?<=://)([^/?#@:]*):.*@", re.DOTALL)
_SECRET_QUERY = re.compile(r"([?&][^=&]*password=)[^&#]*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where one server listens, which database is meant, and who asks.

    `path` is set for a unix socket, `host` and `port` otherwise. `options` are the remaining query
    parameters, in order.
    """

    host: str | None
    port: int | None
    path: str | None
    database: int
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    tls: bool = False
    options: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Read a URL of one server.

        Args:
            url: `redis://`, `rediss://`, `unix://` or `redis+socket://`, in redis-py's or kombu's spelling.

        Returns:
            The address; the port defaults to 6379, the database to 0.

        Raises:
            ValueError: another scheme, no socket path, or a port or database that is no number. The
                text never repeats the URL, which may hold a password.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ValueError(f"the URL must start with one of {', '.join(s + '://' for s in SCHEMES)}")
        query = dict(parse_qsl(parts.query))
        path: str | None = None
        if parts.scheme in ("unix", "redis+socket"):
            path = unquote(parts.path)
            if len(path) < 2:
                raise ValueError(f"a {parts.scheme}:// URL needs the absolute path of a socket")
            database = query.pop("virtual_host", "") or query.pop("db", "")
        else:
            database = query.pop("db", "") or unquote(parts.path)
        try:
            port = parts.port
        except ValueError:
            raise ValueError("the port must be a number from 0 to 65535") from None
        number = database.strip("/") or "0"
        if not (number.isascii() and number.isdigit()):
            raise ValueError("the database must be a number, as in redis://localhost:6379/0")
        return cls(
            host=None if path else (parts.hostname or "localhost"),
            port=None if path else (port or 6379),
            path=path,
            database=int(number),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            tls=parts.scheme == "rediss",
            options=tuple(query.items()),
        )

    @property
    def place(self) -> tuple[str, int, int]:
        """Server and database without credentials: equal places are the same keys."""
        if self.path is not None:
            return (self.path, 0, self.database)
        host = (self.host or "localhost").lower()
        return ("127.0.0.1" if host == "localhost" else host, self.port or 6379, self.database)

    def for_redis(self) -> str:
        """The URL in redis-py's spelling."""
        if self.path is None:
            return self._tcp_url()
        return f"unix://{self._user_info()}{quote(self.path)}{self._query(('db', str(self.database)))}"

    def for_kombu(self) -> str:
        """The URL in kombu's spelling."""
        if self.path is None:
            return self._tcp_url()
        database = ("virtual_host", str(self.database))
        return f"redis+socket://{self._user_info()}{quote(self.path)}{self._query(database)}"

    def _tcp_url(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        host = self.host or "localhost"
        host = f"[{host}]" if ":" in host else host
        return f"{scheme}://{self._user_info()}{host}:{self.port or 6379}/{self.database}{self._query()}"

    def _user_info(self) -> str:
        if self.username is None and self.password is None:
            return ""
        password = "" if self.password is None else ":" + quote(self.password, safe="")
        return f"{quote(self.username or '', safe='')}{password}@"

    def _query(self, *first: tuple[str, str]) -> str:
        pairs = (*first, *self.options)
        return "?" + urlencode(pairs) if pairs else ""


def names_one_server(url: str) -> bool:
    """Whether the URL's scheme is one that `ServerAddress.parse` reads."""
    return url.partition("://")[0] in SCHEMES


def without_password(url: str) -> str:
    """The URL with every password in it replaced by `***`, for logs and messages."""
    return _SECRET_QUERY.sub(r"\1***", _USER_INFO.sub(r"\1:***@", url))
