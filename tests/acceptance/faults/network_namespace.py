"""A machine of its own on the far end of a cable: a network namespace, joined to this one by a veth pair.

A cut cable is what a proxy cannot imitate: nobody acknowledges a byte, and the kernel of neither side is
told that the other one is gone.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple, Self

# Set aside for tests between networks (RFC 2544): no real network should have it.
_SPACE: Final = ipaddress.ip_network("198.18.0.0/15")
_SUBNET_BITS: Final = 30
_ESTABLISHED: Final = "01"
_LATE_METRIC: Final = "4096"


class NamespaceRefusedError(Exception):
    """This machine, or its user, can have no network namespace; says why."""


class Socket(NamedTuple):
    """One established TCP connection, as the kernel of the far machine sees it."""

    local_port: int
    unacknowledged: bool  # something that was sent is still under way


class FarMachine:
    """A namespace with a network of its own, whose cable to this machine can be cut; closed by `with`.

    Raises:
        NamespaceRefusedError: There is no right, or no program, to make one.
    """

    def __init__(self) -> None:
        self._name = f"retinue-{os.getpid()}"
        self._near_end, self._far_end = f"rt{os.getpid()}near", f"rt{os.getpid()}far"
        if os.geteuid() != 0:
            raise NamespaceRefusedError("network namespaces need root")
        if shutil.which("ip") is None:
            raise NamespaceRefusedError("network namespaces need the program ip (package iproute2)")
        with ExitStack() as undo:
            subnet = _free_subnet()
            near, far = subnet.hosts()
            self.host = str(near)
            """The address of this machine for the far one; here it answers whatever the cable does."""
            self.address = str(far)
            """The address of the far machine for this one."""
            self._build(undo, subnet)
            self._undo = undo.pop_all()

    @property
    def command(self) -> tuple[str, ...]:
        """What to put before a command that is to run on the far machine."""
        return ("ip", "netns", "exec", self._name)

    def cut(self) -> None:
        """Cuts the cable: from now on what either side sends is gone."""
        _ip("link", "set", self._near_end, "down")

    def mend(self) -> None:
        """Joins the cable again; without a cut it does nothing."""
        _ip("link", "set", self._near_end, "up")

    def sockets(self, port: int) -> list[Socket]:
        """The far machine's established connections to a port of this one."""
        table = _run(*self.command, "cat", "/proc/net/tcp")
        rows = [line.split() for line in table.splitlines()[1:]]
        return [
            Socket(int(local.rpartition(":")[2], 16), int(queues.partition(":")[0], 16) > 0)
            for _, local, remote, state, queues, *_ in rows
            if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port
        ]

    def close(self) -> None:
        """Takes down all that was put up. May be called twice."""
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build(self, undo: ExitStack, subnet: ipaddress.IPv4Network) -> None:
        near, far = f"{self.host}/{_SUBNET_BITS}", f"{self.address}/{_SUBNET_BITS}"
        _ip("netns", "add", self._name)
        undo.callback(_ip, "netns", "delete", self._name)
        _ip("link", "add", self._near_end, "type", "veth", "peer", "name", self._far_end)
        undo.callback(_ip, "link", "delete", self._near_end)
        _ip("link", "set", self._far_end, "netns", self._name)
        # A link that is down takes its own address and route along. The address has to answer here on, and
        # what is meant for the far machine must get lost instead of leaving by another way.
        _ip("address", "add", f"{self.host}/32", "dev", "lo")
        undo.callback(_ip, "address", "delete", f"{self.host}/32", "dev", "lo")
        lost = ("blackhole", str(subnet), "metric", _LATE_METRIC)
        _ip("route", "add", *lost)
        undo.callback(_ip, "route", "delete", *lost)
        _ip("address", "add", near, "dev", self._near_end)
        _ip("-n", self._name, "address", "add", far, "dev", self._far_end)
        for link in ("lo", self._far_end):
            _ip("-n", self._name, "link", "set", link, "up")
        self.mend()


def _free_subnet() -> ipaddress.IPv4Network:
    """One that no route of this machine leads to; other processes of the same tests begin elsewhere."""
    routes = json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
    taken = [
        ipaddress.ip_network(route["dst"], strict=False) for route in routes if route["dst"] != "default"
    ]
    count = 2 ** (_SUBNET_BITS - _SPACE.prefixlen)
    for number in range(os.getpid(), os.getpid() + count):
        address = _SPACE.network_address + number % count * 2 ** (32 - _SUBNET_BITS)
        subnet = ipaddress.IPv4Network((address, _SUBNET_BITS))
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise NamespaceRefusedError(f"routes of this machine cover all of {_SPACE}")


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NamespaceRefusedError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
