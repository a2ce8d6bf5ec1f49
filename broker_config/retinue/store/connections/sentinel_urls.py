"""URLs of a store that Sentinel watches: `sentinel://host1:26379,host2:26379/<service>/<db>`.

Separate from urls.py because such a URL names no server: which one is the primary is asked at each
connect (store/connections/primary.py). Why it is written so: docs/decisions/0011-sentinel-urls.md.
"""

import re
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, quote, unquote, urlencode

from retinue.contract.errors import SettingsError
from retinue.store.connections.urls import SCHEMES, ServerAddress

DEFAULT_SENTINEL_PORT = 26379
SCHEME = "sentinel"
_EXAMPLE = "write it as in sentinel://user:password@host1:26379,host2:26379/mymaster/0"
_URL = re.compile(
    r"sentinel://(?P<hosts>[^/?#]*)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?", re.IGNORECASE
)
_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:@,;\s]+)(?::(?P<port>[0-9]{1,5}))?")
_SERVICE = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """A service that Sentinel watches, a database of it and the credentials.

    Args:
        service: The name that the sentinels know it by, as in `sentinel monitor <service> ...`.
        sentinels: Host and port of each sentinel, at least one.
        db: Database number on the primary.
        username: ACL user on the primary and its replicas; None = the default user.
        password: Its password; never shown in a repr or an error.
        sentinel_username: ACL user on the sentinels; None = the default user.
        sentinel_password: Its password; None = the sentinels want none.
    """

    service: str
    sentinels: tuple[tuple[str, int], ...]
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str) -> "SentinelAddress":
        """Read a `sentinel://` URL.

        Args:
            url: `sentinel://user:password@host1:26379,host2/<service>/<db>`; the port defaults to
                26379, the database to 0, the credentials are the servers'. The sentinels' own are the
                parameters `sentinel_username` and `sentinel_password`.

        Raises:
            SettingsError: It is not of that form. Neither its text nor what it carries repeats the URL.
        """
        if ";" in url:
            raise SettingsError(
                "the URL separates its sentinels by `;`, which leaves no room for the service's name",
                mend=_EXAMPLE,
            )
        parts = _URL.fullmatch(url)
        if parts is None:
            raise SettingsError("the sentinel:// URL cannot be read", mend=_EXAMPLE)
        user_info, _, hosts = parts["hosts"].rpartition("@")
        username, _, password = user_info.partition(":")
        service, db = _service(parts["path"] or "")
        own = _parameters(parts["query"] or "")
        return cls(
            service,
            tuple(_sentinel(text) for text in hosts.split(",")),
            db,
            username=unquote(username) or None,
            password=unquote(password) or None,
            sentinel_username=own.get("sentinel_username") or None,
            sentinel_password=own.get("sentinel_password") or None,
        )

    @property
    def url(self) -> str:
        """The URL that `parse` reads as this, with the credentials."""
        hosts = ",".join(f"{_bracketed(host)}:{port}" for host, port in self.sentinels)
        named = {"sentinel_username": self.sentinel_username, "sentinel_password": self.sentinel_password}
        query = urlencode({name: value for name, value in named.items() if value is not None})
        return f"{SCHEME}://{self.user_info}{hosts}/{self.service}/{self.db}{'?' if query else ''}{query}"

    @property
    def user_info(self) -> str:
        """The servers' credentials as they stand in a URL before the hosts; empty = none."""
        if self.username is None and self.password is None:
            return ""
        password = "" if self.password is None else ":" + quote(self.password, safe="")
        return f"{quote(self.username or '', safe='')}{password}@"

    @property
    def sentinel_servers(self) -> tuple[ServerAddress, ...]:
        """Where the sentinels themselves are."""
        bare = ServerAddress("", 0, username=self.sentinel_username, password=self.sentinel_password)
        return tuple(replace(bare, host=host, port=port) for host, port in self.sentinels)

    def server_at(self, host: str, port: int) -> ServerAddress:
        """The address of a server of the service.

        Args:
            host: As a sentinel told it.
            port: Likewise.
        """
        return ServerAddress(host, port, db=self.db, username=self.username, password=self.password)

    def __str__(self) -> str:
        """The place alone, without credentials: fit for logs and errors."""
        hosts = ", ".join(f"{_bracketed(host)}:{port}" for host, port in self.sentinels)
        return f"{self.service} of the sentinels {hosts} db {self.db}"


StoreAddress = ServerAddress | SentinelAddress
"""Where a store is: one server, or a service whose primary Sentinel names."""


def parse_store_url(url: str) -> StoreAddress:
    """Read any URL of a store.

    Raises:
        SettingsError: Neither `ServerAddress.parse` nor `SentinelAddress.parse` reads it.
    """
    return SentinelAddress.parse(url) if _scheme(url) == SCHEME else ServerAddress.parse(url)


def names_store(url: str) -> bool:
    """Whether the URL's scheme is one that `parse_store_url` reads."""
    return _scheme(url) in (*SCHEMES, SCHEME)


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _sentinel(text: str) -> tuple[str, int]:
    parts = _HOST.fullmatch(text)
    port = int(parts["port"] or DEFAULT_SENTINEL_PORT) if parts else 0
    if parts is None or not 0 < port <= 65_535:
        raise SettingsError(
            "the URL's sentinels cannot be read: each is a host, or host:port, and they are separated by "
            "commas; special characters in a password are percent-encoded",
            mend=_EXAMPLE,
        )
    return parts["host"].strip("[]"), port


def _service(path: str) -> tuple[str, int]:
    name, _, db = path.rstrip("/").partition("/")
    service = unquote(name)
    # kombu's form has the database there.
    if not _SERVICE.fullmatch(service) or (service.isdigit() and not db):
        raise SettingsError(
            "the URL must name the service that the sentinels watch, after the hosts", mend=_EXAMPLE
        )
    if db and not (db.isascii() and db.isdigit()):
        raise SettingsError("the database must be a number, after the service's name", mend=_EXAMPLE)
    return service, int(db or "0")


def _parameters(query: str) -> dict[str, str]:
    own = dict(parse_qsl(query))
    unknown = sorted(own.keys() - {"sentinel_username", "sentinel_password"})
    if unknown:
        raise SettingsError(
            f"a sentinel:// URL takes no parameter {unknown[0]}",
            mend="it takes sentinel_username and sentinel_password; the servers' stand before the hosts",
        )
    return own
