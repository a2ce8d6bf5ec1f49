"""What a look at a server found, as values: read by the start-up check and by `retinue doctor`."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class ServerDurability(StrEnum):
    """What the server's configuration makes of an acknowledged write."""

    STRICT = "strict"
    """Synced with the write (`appendfsync always`, also while the file is rewritten)."""
    EVERYSEC = "everysec"
    """Synced once a second."""
    NONE = "none"
    """Not synced: no append-only file, or one that is left to the operating system."""
    UNKNOWN = "unknown"
    """The server does not let CONFIG be read, as hosted ones often do."""


class Severity(StrEnum):
    """Whether a process may start in spite of a problem."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True, slots=True)
class ServerProblem:
    """One thing to mend: what is wrong, and the command or setting that mends it."""

    severity: Severity
    message: str
    mend: str

    def __str__(self) -> str:
        return f"{self.message}. To mend: {self.mend}."


@dataclasses.dataclass(frozen=True, slots=True)
class SentinelFacts:
    """What the sentinels say of a service."""

    service: str
    named: int
    """How many the URL names."""
    answered: int
    """How many of these answered."""
    watching: int
    """How many watch the service, as they say."""
    quorum: int
    """How many must agree that the primary is down."""
    replicas: int
    """How many replicas they know, also those that are away."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServerReport:
    """What one look at a server showed. Texts are empty where the server did not say."""

    url: str
    """Where it is, without passwords."""
    reachable: bool
    product: str = ""
    """`redis` or `valkey`."""
    version: str = ""
    role: str = ""
    """`master` or `slave`, in the server's words."""
    mode: str = ""
    """`standalone`, `cluster` or `sentinel`."""
    replicas: int = 0
    """Connected ones."""
    min_replicas: int = 0
    """How many must be in step for the server to take writes (`min-replicas-to-write`); 0 = none."""
    sentinels: SentinelFacts | None = None
    """Of a store that Sentinel watches; None = the URL names a server."""
    maxmemory_policy: str = ""
    durability: ServerDurability = ServerDurability.UNKNOWN
    problems: tuple[ServerProblem, ...] = ()

    @property
    def errors(self) -> tuple[ServerProblem, ...]:
        """The problems with which no process may start."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)
