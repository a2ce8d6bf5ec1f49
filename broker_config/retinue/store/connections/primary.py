"""Which server is the primary: what to ask sentinels, and which of their answers to believe.

Pure; all input and output is in reaching.py.
"""

from dataclasses import dataclass
from typing import cast

from retinue.contract.errors import StoreError, StoreReplyError, StoreUnavailableError
from retinue.store.connections import wire
from retinue.store.connections.sentinel_urls import SentinelAddress
from retinue.store.connections.urls import ServerAddress
from retinue.store.connections.wire import Reply

GRACE_S = 0.1
"""Seconds that the other sentinels get once one has answered: one that was away knows an old primary."""


@dataclass(frozen=True, slots=True)
class Named:
    """What one sentinel says of a service.

    Args:
        host: Of its primary.
        port: Likewise.
        config_epoch: Raised by each failover: of two answers, the higher is the newer.
        is_down: Enough sentinels agree that it is down, and no other has taken over yet.
        replicas: How many the sentinel knows, also those that are away.
        sentinels: How many watch the service, also those that are away.
        quorum: How many of them must agree that the primary is down.
    """

    host: str
    port: int
    config_epoch: int
    is_down: bool = False
    replicas: int = 0
    sentinels: int = 1
    quorum: int = 1


class Replies:
    """The sentinels' answers as they come in: who is believed, and for how long the rest is waited for.

    Args:
        service: Whose primary is looked for.
    """

    def __init__(self, service: SentinelAddress) -> None:
        self._service = service
        self._missing = len(service.sentinels)
        self.named: list[Named] = []
        self.faults: list[StoreUnavailableError] = []

    def add(self, answer: Named | StoreUnavailableError) -> None:
        """Note one answer."""
        self._missing -= 1
        if isinstance(answer, Named):
            self.named.append(answer)
        else:
            self.faults.append(answer)

    @property
    def complete(self) -> bool:
        """Whether all have answered."""
        return self._missing == 0

    @property
    def enough(self) -> bool:
        """Whether nothing that is missing could matter.

        All have answered, or most with one epoch, of a primary that is up. Of one that is down a missing one
        may know the successor: sentinels tell each other of a failover up to two seconds late.
        """
        agreed = len({answer.config_epoch for answer in self.named}) == 1
        most = 2 * len(self.named) > len(self._service.sentinels)
        return self.complete or (agreed and most and self._says_up)

    def wait_s(self, left_s: float) -> float:
        """How long to wait for the next answer, of the seconds that are left."""
        return min(GRACE_S, left_s) if self._says_up else left_s

    @property
    def _says_up(self) -> bool:
        return bool(self.named) and not any(answer.is_down for answer in self.named)

    def primary(self) -> ServerAddress:
        """The primary.

        Raises:
            StoreUnavailableError: Nobody knows it, or it is down.
        """
        if not self.named:
            refused = next((fault for fault in self.faults if fault.mend is not None), None)
            first = refused or next(iter(self.faults), None)
            reason = "none answered in time" if first is None else first.message
            raise StoreUnavailableError(
                f"{self._service}: no sentinel names the primary: {reason}",
                mend=None if refused is None else refused.mend,
            )
        newest = max(self.named, key=lambda answer: answer.config_epoch)
        if newest.is_down:
            raise StoreUnavailableError(
                f"{self._service}: the primary {newest.host}:{newest.port} is down, and no replica has "
                "taken over yet"
            )
        return self._service.server_at(newest.host, newest.port)


def question(service: str) -> bytes:
    """What a sentinel is asked, as it goes over the wire."""
    return wire.pack(("SENTINEL", "MASTER", service))


def read_answer(reply: Reply, service: str) -> Named:
    """A sentinel's answer.

    Raises:
        StoreUnavailableError: It does not watch the service (then with a mend), or cannot say.
    """
    if isinstance(reply, StoreError):
        unknown = isinstance(reply, StoreReplyError) and "No such master" in str(reply)
        raise StoreUnavailableError(
            f"a sentinel says of {service!r}: {reply}",
            mend="correct the service's name in the store's URL" if unknown else None,
        )
    words = [word.decode() for word in cast("list[bytes]", reply)] if isinstance(reply, list) else []
    told = dict(zip(words[::2], words[1::2], strict=False))
    if not told.get("ip") or not told.get("port"):
        raise StoreUnavailableError(f"a sentinel does not say where the primary of {service!r} is")
    return Named(
        told["ip"],
        int(told["port"]),
        int(told.get("config-epoch", 0)),
        is_down="o_down" in told.get("flags", "").split(","),
        replicas=int(told.get("num-slaves", 0)),
        sentinels=int(told.get("num-other-sentinels", 0)) + 1,
        quorum=int(told.get("quorum", 1)),
    )
