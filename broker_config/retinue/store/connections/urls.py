"""Server URLs: where a Redis or Valkey server is and how to get in.

One parser for every URL of a server, so that the settings, the links, the subscriptions and the
lease's sidecar agree on what it means. It takes the spellings of both redis-py and kombu; how to
write them is in broker/addresses.py.
"""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from retinue.contract.errors import SettingsError

DEFAULT_PORT = 6379
_TLS_SCHEMES = ("rediss", "valkeys")
_UNIX_SCHEMES = ("unix", "redis+socket")
SCHEMES = ("redis", "valkey", *_TLS_SCHEMES, *_UNIX_SCHEMES)
"""URL schemes that name one Redis or Valkey server."""

_CERT_CHECKS = {
    "required": "required",
    "cert_required": "required",
    "optional": "optional",
    "cert_optional": "optional",
    "none": "none",
    "cert_none": "none",
}
_EXAMPLE = "write it as in redis://user:password@localhost:6379/0"
_USER_INFO = re.compile(r"(?<=://)([^/?#@:]*):.*@", re.DOTALL)
_SECRET_QUERY = re.compile(r"([?&][^=&]*password=)[^&#]*", re.IGNORECASE)


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
        mode = ssl.VerifyMode[f"CERT_{self.check.upper()}"]
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
        options: The other query parameters in order, those of ``tls`` included, for the libraries
            that are given a URL.
    """

    host: str
    port: int
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: TlsOptions | None = None
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, url: str) -> "ServerAddress":
        """Read a server URL.

        Args:
            url: ``redis://``, ``rediss://``, ``valkey://``, ``valkeys://``
                (``user:password@host:port/db``), ``unix://`` or ``redis+socket://``
                (``user:password@/path?db=0``).

        Returns:
            The address; the port defaults to 6379, the database to 0.

        Raises:
            SettingsError: The URL is none of these. Neither its text nor what it carries repeats the URL.
        """
        parts = _split(url)
        if parts is None:
            raise SettingsError(
                "the URL's host and port cannot be read: a port is a number from 0 to 65535, and special "
                "characters in a password are percent-encoded",
                mend=_EXAMPLE,
            )
        if parts.scheme not in SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise SettingsError(f"the URL must start with one of {known}", mend=_EXAMPLE)
        query = dict(parse_qsl(parts.query))
        username, password = query.pop("username", None), query.pop("password", None)
        named = query.pop("db", ""), query.pop("virtual_host", "")
        at: tuple[str, int, str | None]
        tls: TlsOptions | None = None
        if parts.scheme in _UNIX_SCHEMES:
            at = ("", 0, _socket_path(parts.scheme, parts.path))
        else:
            at = (parts.hostname or "localhost", parts.port or DEFAULT_PORT, None)
            named = *named, unquote(parts.path)
        if parts.scheme in _TLS_SCHEMES:
            tls = _tls_options(query)
            # kombu knows fewer spellings of these two.
            plain = {"ssl_cert_reqs": tls.check, "ssl_check_hostname": str(tls.check_hostname).lower()}
            query |= {name: value for name, value in plain.items() if name in query}
        return cls(
            *at,
            db=_database(next(filter(None, named), "")),
            username=unquote(parts.username) if parts.username else username,
            password=unquote(parts.password) if parts.password else password,
            tls=tls,
            options=tuple(query.items()),
        )

    def __str__(self) -> str:
        """The place alone, without credentials: fit for logs and errors."""
        if self.path is not None:
            return f"{self.path} db {self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port} db {self.db}"


def without_password(url: str) -> str:
    """The URL with every password in it replaced by ``***``, for logs and messages.

    Args:
        url: Any server URL, also a malformed one.
    """
    return _SECRET_QUERY.sub(r"\1***", _USER_INFO.sub(r"\1:***@", url))


def _split(url: str) -> SplitResult | None:
    """The URL's parts; None = they cannot be told apart.

    No error, as the library's own repeats what stood in the place of the port: it may be a password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _socket_path(scheme: str, quoted: str) -> str:
    path = unquote(quoted)
    if len(path) < 2:
        raise SettingsError(
            f"a {scheme}:// URL needs the absolute path of a socket",
            mend="write it as in unix:///run/valkey.sock?db=0",
        )
    return path


def _database(text: str) -> int:
    number = text.strip("/") or "0"
    if not (number.isascii() and number.isdigit()):
        raise SettingsError("the database must be a number, as in redis://localhost:6379/0", mend=_EXAMPLE)
    return int(number)


def _tls_options(query: Mapping[str, str]) -> TlsOptions:
    check = _CERT_CHECKS.get(query.get("ssl_cert_reqs", "required").lower())
    if check is None:
        raise SettingsError(
            "the URL's ssl_cert_reqs must be one of required, optional, none", mend="correct or remove it"
        )
    return TlsOptions(
        check=check,
        check_hostname=query.get("ssl_check_hostname", "true").lower() not in {"false", "0", "no"},
        ca_file=query.get("ssl_ca_certs"),
        cert_file=query.get("ssl_certfile"),
        key_file=query.get("ssl_keyfile"),
    )
