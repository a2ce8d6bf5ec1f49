"""Whether a server can hold the truth: asked once when a process starts, and by `retinue doctor`.

Each of these would otherwise show as a lost or failing run much later: an eviction policy that deletes
records, a version without the needed script flags, a replica that refuses writes, a weaker durability than
the settings promise.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retinue.broker.addresses import for_redis
from retinue.broker.settings_sections import Durability
from retinue.contract.errors import SettingsError, StoreUnavailableError
from retinue.store.urls import ServerAddress, without_password

MIN_REDIS = (7, 0)
"""Scripts with flags (`#!lua flags=...`) came with Redis 7.0; every Valkey has them."""

CHECK_TIMEOUT_S = 3.0
"""Limit of one check, in seconds: half of it for the connect, half for a reply."""

_PARAMETERS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "maxmemory-policy")

_log = logging.getLogger(__name__)


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
    maxmemory_policy: str = ""
    durability: ServerDurability = ServerDurability.UNKNOWN
    problems: tuple[ServerProblem, ...] = ()

    @property
    def errors(self) -> tuple[ServerProblem, ...]:
        """The problems with which no process may start."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)


def check_server(
    url: str, *, durability: Durability = Durability.EVERYSEC, timeout_s: float = CHECK_TIMEOUT_S
) -> ServerReport:
    """Look at a server and say what is wrong with it, each with its mend.

    Args:
        url: a URL that `ServerAddress.parse` reads.
        durability: what the settings promise.
        timeout_s: limit in seconds (name resolution excepted).

    Returns:
        The report; a server that cannot be reached is a report too, with `reachable` False.

    Raises:
        SettingsError: the URL is not one of a server.
    """
    address = ServerAddress.parse(url)
    shown = without_password(url)
    try:
        info, config = _look(address, timeout_s)
    except redis.AuthenticationError:
        refused = ServerProblem(
            Severity.ERROR, "the server refused the user or the password", "correct them in the URL"
        )
        return ServerReport(url=shown, reachable=True, problems=(refused,))
    except redis.ResponseError as error:
        # "NOPERM ...": the server's first word, never the whole text, which may quote what it was sent.
        word = (str(error).split() or ["?"])[0]
        if "DB index" in str(error):
            message = f"the server has no database {address.db}"
            mend = "correct the database number in the URL; most servers have 0 to 15"
        else:
            message, mend = f"the server refused INFO ({word})", "allow the user INFO and the database"
        refused = ServerProblem(Severity.ERROR, message, mend)
        return ServerReport(url=shown, reachable=True, problems=(refused,))
    except (redis.RedisError, OSError) as error:
        absent = ServerProblem(
            Severity.ERROR,
            f"no server answers at {shown} ({type(error).__name__})",
            "start it, or correct RETINUE_STORE_URL; `retinue up` brings one along",
        )
        return ServerReport(url=shown, reachable=False, problems=(absent,))
    return _report(shown, info, config, durability)


def require_server(
    url: str,
    *,
    durability: Durability = Durability.EVERYSEC,
    setting: str = "store_url",
    timeout_s: float = CHECK_TIMEOUT_S,
) -> ServerReport:
    """Refuse to go on with a server that cannot hold the truth; warnings are logged.

    Args:
        url: as in `check_server`.
        durability: what the settings promise.
        setting: the setting that the URL came from, for the error.
        timeout_s: limit in seconds.

    Returns:
        The report of a server without errors.

    Raises:
        StoreUnavailableError: no answer within `timeout_s`.
        SettingsError: the first error of the report, or a URL that is not one of a server.
    """
    try:
        report = check_server(url, durability=durability, timeout_s=timeout_s)
    except SettingsError as error:
        error.setting = setting
        raise
    if not report.reachable:
        raise StoreUnavailableError(str(report.problems[0]))
    for problem in report.errors:
        raise SettingsError(f"{report.url}: {problem.message}", setting=setting, mend=problem.mend)
    for problem in report.problems:
        _log.warning("server_check url=%s problem=%r mend=%r", report.url, problem.message, problem.mend)
    return report


def _look(address: ServerAddress, timeout_s: float) -> tuple[Mapping[str, Any], Mapping[str, str] | None]:
    """INFO, and CONFIG where it is allowed, in one round trip."""
    client = redis.Redis.from_url(
        for_redis(address),
        decode_responses=True,
        protocol=2,
        socket_connect_timeout=timeout_s / 2,
        socket_timeout=timeout_s / 2,
        retry=Retry(NoBackoff(), 0),
    )
    with client, client.pipeline(transaction=False) as pipeline:
        pipeline.info()
        for parameter in _PARAMETERS:
            pipeline.config_get(parameter)
        info, *replies = pipeline.execute(raise_on_error=False)
    if isinstance(info, Exception):
        raise info
    config: dict[str, str] = {}
    for reply in replies:
        if not isinstance(reply, dict):
            return info, None
        config.update(reply)
    return info, config


def _report(
    shown: str, info: Mapping[str, Any], config: Mapping[str, str] | None, promised: Durability
) -> ServerReport:
    valkey = str(info.get("valkey_version", ""))
    bare = ServerReport(
        url=shown,
        reachable=True,
        product="valkey" if valkey else "redis",
        version=valkey or str(info.get("redis_version", "")),
        role=str(info.get("role", "")),
        mode=str(info.get("redis_mode") or info.get("server_mode") or ""),
        replicas=int(info.get("connected_slaves", 0)),
        maxmemory_policy=str((config or {}).get("maxmemory-policy") or info.get("maxmemory_policy", "")),
        durability=_durability(config),
    )
    found = (
        _mode_problem(bare),
        _version_problem(bare),
        _role_problem(bare),
        _policy_problem(bare),
        _durability_problem(bare, promised),
    )
    return dataclasses.replace(bare, problems=tuple(problem for problem in found if problem is not None))


def _durability(config: Mapping[str, str] | None) -> ServerDurability:
    if not config or "appendonly" not in config:
        return ServerDurability.UNKNOWN
    if config["appendonly"] != "yes":
        return ServerDurability.NONE
    match config.get("appendfsync"):
        case "always" if config.get("no-appendfsync-on-rewrite") != "yes":
            return ServerDurability.STRICT
        case "always" | "everysec":
            return ServerDurability.EVERYSEC
        case _:
            return ServerDurability.NONE


def _mode_problem(report: ServerReport) -> ServerProblem | None:
    if report.mode not in ("cluster", "sentinel"):
        return None
    return ServerProblem(
        Severity.ERROR,
        f"the server runs in {report.mode} mode, which cannot hold the store",
        "name a server of its own, with its replicas if need be",
    )


def _version_problem(report: ServerReport) -> ServerProblem | None:
    if report.product == "valkey":
        return None
    numbers = tuple(int(part) for part in report.version.split(".")[:2] if part.isdigit())
    if numbers >= MIN_REDIS:
        return None
    return ServerProblem(
        Severity.ERROR,
        f"the server is Redis {report.version or 'of unknown version'}, which lacks script flags",
        "use Redis 7.0 or newer, or Valkey",
    )


def _role_problem(report: ServerReport) -> ServerProblem | None:
    if report.role not in ("slave", "replica"):
        return None
    return ServerProblem(
        Severity.ERROR, "the server is a replica, which refuses writes", "name its primary in the URL"
    )


def _policy_problem(report: ServerReport) -> ServerProblem | None:
    if report.maxmemory_policy in ("noeviction", ""):
        return None
    return ServerProblem(
        Severity.ERROR,
        f"maxmemory-policy is {report.maxmemory_policy}, with which the server may delete runs",
        "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration file",
    )


def _durability_problem(report: ServerReport, promised: Durability) -> ServerProblem | None:
    actual = report.durability
    if promised is Durability.STRICT and actual is not ServerDurability.STRICT:
        if actual is ServerDurability.UNKNOWN:
            return ServerProblem(
                Severity.WARNING,
                "durability is strict, but the server does not let CONFIG be read",
                "see that its append-only file is synced always, or allow the user CONFIG GET",
            )
        return ServerProblem(
            Severity.ERROR,
            f"durability is strict, but the server's is {actual.value}",
            "set appendonly yes, appendfsync always, no-appendfsync-on-rewrite no; or durability = everysec",
        )
    if actual is ServerDurability.NONE:
        return ServerProblem(
            Severity.WARNING,
            "the server syncs no append-only file: its restart loses runs",
            "CONFIG SET appendonly yes and appendfsync everysec, and the same in its configuration file",
        )
    return None
