"""What `durability = "strict"` adds to a call: a replica must have the write before the call counts.

Pure; the links that do it are in replicated_links.py. WAIT counts the replicas that have all that its own
connection wrote. A repeat on another connection writes nothing, and Valkey would then count every replica,
also one that is far behind; so each WAIT follows a PUBLISH, which replicas receive in order with the rest.
"""

import logging

from retinue.contract.errors import StoreError, StoreUnavailableError
from retinue.store import keys
from retinue.store.connections.sentinel_urls import SentinelAddress, StoreAddress
from retinue.store.connections.wire import Argument, Reply

ACKNOWLEDGED_SCRIPTS = frozenset({"answer", "cancel", "decide", "finish", "launch", "steer"})
"""Whose loss somebody outside would notice. What a worker writes in between is done again, or found again."""

LONGEST_WAIT_S = 1.0
"""Seconds that a replica gets; one that is merely slow is waited for again when the call is repeated."""

_log = logging.getLogger(__name__)

Commands = list[tuple[Argument, ...]]


class Acknowledgement:
    """What one link asks after a write, and how it reads the answer.

    A service that Sentinel watches must have a replica: without one an acknowledged write could be lost
    in the very failover that it is asked for. A single server may have none; once it was seen with one,
    that one must answer.

    Args:
        address: The store.
        reply_timeout_s: How long the link waits for any reply; a replica gets half of it at the most.
    """

    def __init__(self, address: StoreAddress, reply_timeout_s: float) -> None:
        self._address = address
        self._wait_s = min(LONGEST_WAIT_S, reply_timeout_s / 2)
        self._has_replica = isinstance(address, SentinelAddress)

    def commands(self) -> Commands:
        """What follows the write, on its connection."""
        if not self._has_replica:
            return [("ROLE",)]
        return [("PUBLISH", keys.BARRIER_CHANNEL, ""), ("WAIT", 1, round(self._wait_s * 1000))]

    def is_given(self, replies: list[Reply]) -> bool:
        """Whether the write counts; False = the server turned out to have replicas: ask again.

        Args:
            replies: To `commands`, in order.

        Raises:
            StoreUnavailableError: No replica has it in time, or the server stopped being the primary.
        """
        last = replies[-1]
        if isinstance(last, list):
            self._has_replica = last[0] == b"master" and bool(last[2])
            return not self._has_replica
        if isinstance(last, int) and last > 0:
            return True
        reason = str(last) if isinstance(last, StoreError) else f"none within {self._wait_s:g} s"
        _log.warning("store.not_replicated store=%s reason=%r", self._address, reason)
        raise StoreUnavailableError(
            f"{self._address}: durability is strict, and no replica acknowledged the write ({reason})",
            sent=True,
        )
