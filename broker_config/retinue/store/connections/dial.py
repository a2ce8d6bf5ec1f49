"""How to get a connection: what every link and subscription hands to those that open one."""

from dataclasses import dataclass

from retinue.store.connections import wire
from retinue.store.connections.sentinel_urls import SentinelAddress, StoreAddress, parse_store_url


@dataclass(frozen=True, slots=True)
class Dial:
    """Where to connect, under what name and how long to wait.

    Args:
        address: The server, or the service whose primary is meant.
        client_name: What CLIENT LIST shows, fit for CLIENT SETNAME; None = nothing.
        connect_timeout_s: Seconds for connecting: name lookup, TLS and greeting included.
        timeout_s: Seconds for each later reply.
    """

    address: StoreAddress
    client_name: str | None
    connect_timeout_s: float
    timeout_s: float

    @classmethod
    def to(
        cls, url: str, *, client_name: str | None, connect_timeout_s: float, timeout_s: float | None = None
    ) -> "Dial":
        """The dial for a URL.

        Args:
            url: As ``parse_store_url`` reads it.
            client_name: Any text; what CLIENT SETNAME refuses is replaced.
            connect_timeout_s: As above.
            timeout_s: As above; None = as long as connecting.

        Raises:
            SettingsError: The URL cannot be read.
        """
        address = parse_store_url(url)
        reply_s = connect_timeout_s if timeout_s is None else timeout_s
        return cls(address, wire.client_name_for(client_name), connect_timeout_s, reply_s)

    @property
    def wants_primary(self) -> bool:
        """Whether the server must say itself that it is a primary: a sentinel's word may be out of date."""
        return isinstance(self.address, SentinelAddress)
