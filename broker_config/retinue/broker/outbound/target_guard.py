"""Which hosts a tool or a webhook may reach: none in the operator's own network unless the settings say so.

A document, a model, a caller or a server's redirect may name any host. What counts is the address that the
name stands for at the moment of connecting, so the caller connects to exactly the addresses that were looked
at here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import Final, Protocol

from retinue.contract import RetinueError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Finds the addresses of a host; raises OSError if there are none."""

_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/96"))
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")


class TargetRefusedError(RetinueError):
    """A host that may not be reached; the text names it and the setting."""


class TargetRules(Protocol):
    """What the settings allow, such as those of RemoteTools."""

    @property
    def allow_private_targets(self) -> bool:
        """Whether private and loopback addresses may be reached; link-local ones are not by this."""
        ...

    @property
    def private_hosts(self) -> tuple[str, ...]:
        """Hosts, addresses and networks that may be reached though not public."""
        ...


class Reach(Enum):
    """Whose network an address belongs to."""

    PUBLIC = "public"
    PRIVATE = "private"  # private, shared or loopback: open to all with one setting
    CLOSED = "closed"  # link-local (cloud metadata), multicast, unspecified, reserved: only if named


def reach_of(address: Address) -> Reach:
    """Whose network an address belongs to; one through a relay counts as the more closed of both."""
    stands_for = _translated(address)
    if stands_for is not None:
        return _plain_reach(stands_for)
    reaches = {_plain_reach(each) for each in (address, *_wrapped(address))}
    return next(reach for reach in (Reach.CLOSED, Reach.PRIVATE, Reach.PUBLIC) if reach in reaches)


class TargetGuard:
    """Looks up hosts and refuses those that are not to be reached.

    Args:
        rules: What is allowed.
        resolve: Finds a host's addresses.
        setting: The one that allows more, for the refusal's text.
    """

    def __init__(
        self,
        rules: TargetRules,
        resolve: Resolver | None = None,
        *,
        setting: str = "[remote_tools] private_hosts",
    ) -> None:
        self._private = rules.allow_private_targets
        self._networks, self._names = _split(rules.private_hosts)
        self._resolve = resolve or _look_up
        self._setting = setting

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses to connect to, in the resolver's order.

        Raises:
            TargetRefusedError: One of them is not to be reached: an honest name has none of that kind.
            OSError: The host has no address.
        """
        name = host.rstrip(".").lower()
        try:
            found = await self._resolve(host, port)
        except UnicodeError:
            raise OSError("the host name is none") from None
        if not found:
            raise OSError("the host has no address")
        if name not in self._names:
            for text in found:
                self._check(host, text)
        return found

    def _check(self, host: str, text: str) -> None:
        address = ipaddress.ip_address(text.partition("%")[0])
        if any(address in network for network in self._networks):
            return
        reach = reach_of(address)
        if reach is Reach.PUBLIC or (reach is Reach.PRIVATE and self._private):
            return
        kind = "a private" if reach is Reach.PRIVATE else "no public"
        raise TargetRefusedError(f"{host} has {kind} address; the operator can allow it with {self._setting}")


def _plain_reach(address: Address) -> Reach:
    if address.is_loopback:
        return Reach.PRIVATE
    if address.is_multicast or address.is_link_local or address.is_unspecified or address.is_reserved:
        return Reach.CLOSED
    if isinstance(address, ipaddress.IPv4Address) and address in _THIS_NETWORK:
        return Reach.CLOSED
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:
        return Reach.PRIVATE
    return Reach.PUBLIC if address.is_global else Reach.PRIVATE


def _translated(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address is another spelling of."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if any(address in network for network in _NAT64):
        return _last_bits(address)
    return address.ipv4_mapped


def _wrapped(address: Address) -> Iterator[Address]:
    """The IPv4 addresses that a packet to this IPv6 address may be relayed to."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if address in _COMPATIBLE and int(address) > 1:
        yield _last_bits(address)


def _last_bits(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)


def _split(hosts: tuple[str, ...]) -> tuple[list[ipaddress.IPv4Network | ipaddress.IPv6Network], set[str]]:
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    names: set[str] = set()
    for host in hosts:
        try:
            networks.append(ipaddress.ip_network(host.strip("[]"), strict=False))
        except ValueError:
            names.add(host.rstrip(".").lower())
    return networks, names


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
