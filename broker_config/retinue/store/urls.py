"""Server URLs: where a Redis or Valkey server is and how to get in.

One parser for every connection of ours, so that the link, the subscriptions and the lease's
sidecar agree on what a URL means. It takes the spellings of both redis-py and kombu.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from retinue.contract.errors import SettingsError

DEFAULT_PORT = 6379
_TCP_SCHEMES = frozenset({"redis", "rediss", "valkey", "valkeys"})
_TLS_SCHEMES = frozenset({"rediss", "valkeys"})
_UNIX_SCHEMES = frozenset({"unix", "redis+socket"})
_CERT_CHECKS = {
    "required": ssl.CERT_REQUIRED,
    "cert_required": ssl.CERT_REQUIRED,
    "optional": ssl.CERT_OPTIONAL,
    "cert_optional": ssl.CERT_OPTIONAL,
    "none": ssl.CERT_NONE,
    "cert_none": ssl.CERT_NONE,
}


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How the server's certificate is checked and which one we show.

    Args:
        check: ``required`` (default), ``optional`` or ``none``, as in redis-py's ``ssl_cert_reqs``.
        check_hostname: Whether the certificate must name the host.
        ca_file: CA bundle; None = the system's.
        cert_file: Our certificate; None = none is shown.
        key_file: Our key; None = it is in ``cert_file``.
    """

    check: str = "required"
    check_hostname: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context these options describe."""
        context = ssl.create_default_context(cafile=self.ca_file)
        mode = _CERT_CHECKS[self.check]
        context.check_hostname = self.check_hostname and mode is ssl.CERT_REQUIRED
        context.verify_mode = mode
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server, a database on it and the credentials for it.

    Args:
        host: Host name or address; empty for a Unix socket.
        port: TCP port; 0 for a Unix socket.
        path: Path of the Unix socket; None for TCP.
        db: Database number.
        username: ACL user; None = the default user.
        password: Never shown in a repr or an error.
        tls: None = plain.
    """

    host: str
    port: int
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: TlsOptions | None = None

    @classmethod
    def parse(cls, url: str) -> "ServerAddress":
        """Read a server URL.

        Args:
            url: ``redis://``, ``rediss://``, ``valkey://``, ``valkeys://``
                (``user:password@host:port/db``), ``unix://`` or ``redis+socket://``
                (``user:password@/path?db=0``).

        Raises:
            SettingsError: The URL is none of these. The message never repeats its credentials.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            # The library's text repeats what stood in the place of the port: it may be a password.
            raise SettingsError(
                "server URL cannot be read", mend="percent-encode special characters in the password"
            ) from None
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        username = unquote(parts.username) if parts.username else None
        password = unquote(parts.password) if parts.password else None
        if parts.scheme in _UNIX_SCHEMES:
            path = unquote(parts.path)
            if not path:
                raise SettingsError("server URL: a Unix socket needs a path", mend="unix:///run/valkey.sock")
            db = _database(query.get("db", query.get("virtual_host", "0")).lstrip("/"))
            return cls("", 0, path, db, username, password)
        if parts.scheme not in _TCP_SCHEMES:
            raise SettingsError(
                f"server URL: unknown scheme {parts.scheme[:20]!r}", mend="redis://, rediss:// or unix://"
            )
        return cls(
            host=parts.hostname or "localhost",
            port=port or DEFAULT_PORT,
            db=_database(query["db"] if "db" in query else parts.path.strip("/")),
            username=username,
            password=password,
            tls=_tls_options(query) if parts.scheme in _TLS_SCHEMES else None,
        )

    def __str__(self) -> str:
        """The place alone, without credentials: fit for logs and errors."""
        if self.path is not None:
            return f"{self.path} db {self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port} db {self.db}"


def without_credentials(url: str) -> str:
    """The URL as it may stand in a log: user and password taken out.

    Args:
        url: Any server URL, also a malformed one.
    """
    try:
        return str(ServerAddress.parse(url))
    except SettingsError:
        return f"{_scheme(url)}://..."


def _scheme(url: str) -> str:
    scheme, found, _ = url.partition("://")
    return scheme if found else "?"


def _database(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        raise SettingsError("server URL: the database must be a number", mend="redis://localhost:6379/0")
    return int(text)


def _tls_options(query: Mapping[str, str]) -> TlsOptions:
    check = query.get("ssl_cert_reqs", "required").lower()
    if check not in _CERT_CHECKS:
        raise SettingsError("server URL: unknown ssl_cert_reqs", mend="required, optional or none")
    return TlsOptions(
        check=check,
        check_hostname=query.get("ssl_check_hostname", "true").lower() not in {"false", "0", "no"},
        ca_file=query.get("ssl_ca_certs"),
        cert_file=query.get("ssl_certfile"),
        key_file=query.get("ssl_keyfile"),
    )
