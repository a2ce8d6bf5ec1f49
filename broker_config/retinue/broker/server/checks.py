"""Whether a server can hold the truth: asked once when a process starts, and by `retinue doctor`.

Each of these would otherwise show as a lost or failing run much later: an eviction policy that deletes
records, a version without the needed script flags, a replica that refuses writes, a weaker durability than
the settings promise.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retinue.broker.addresses import for_redis
from retinue.broker.server import problems
from retinue.broker.server.durability import Durability
from retinue.broker.server.problems import durability_of
from retinue.broker.server.report import SentinelFacts, ServerProblem, ServerReport, Severity
from retinue.contract.errors import SettingsError, StoreUnavailableError
from retinue.store.connections.primary import Replies
from retinue.store.connections.reaching import ask_sentinels
from retinue.store.connections.sentinel_urls import SentinelAddress, parse_store_url
from retinue.store.connections.urls import ServerAddress, without_password

CHECK_TIMEOUT_S = 3.0
"""Limit of one check, in seconds: half of it for the connect, half for a reply."""

_PARAMETERS = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "maxmemory-policy",
    "min-replicas-to-write",
)

_log = logging.getLogger(__name__)


def check_server(
    url: str, *, durability: Durability = Durability.EVERYSEC, timeout_s: float = CHECK_TIMEOUT_S
) -> ServerReport:
    """Look at a server and say what is wrong with it, each with its mend.

    Args:
        url: a URL that `parse_store_url` reads.
        durability: what the settings promise.
        timeout_s: limit in seconds (name resolution excepted).

    Returns:
        The report; a server that cannot be reached is a report too, with `reachable` False.

    Raises:
        SettingsError: the URL is not one of a server.
    """
    address = parse_store_url(url)
    shown = without_password(url)
    if isinstance(address, ServerAddress):
        return _check(address, shown, durability, timeout_s)
    replies = ask_sentinels(address, timeout_s / 2, everybody=True)
    facts = _facts(address, replies)
    try:
        primary = replies.primary()
    except StoreUnavailableError as error:
        mend = error.mend or "start the sentinels and the servers, or correct RETINUE_STORE_URL"
        absent = ServerProblem(Severity.ERROR, error.message, mend)
        return ServerReport(url=shown, reachable=False, sentinels=facts, problems=(absent,))
    report = dataclasses.replace(_check(primary, shown, durability, timeout_s), sentinels=facts)
    more = problems.sentinel_problems(report, durability) if report.version else ()
    return dataclasses.replace(report, problems=(*report.problems, *more))


def _facts(address: SentinelAddress, replies: Replies) -> SentinelFacts:
    told = replies.named
    return SentinelFacts(
        service=address.service,
        named=len(address.sentinels),
        answered=len(told),
        watching=max((named.sentinels for named in told), default=0),
        quorum=max((named.quorum for named in told), default=0),
        replicas=max((named.replicas for named in told), default=0),
    )


def _check(address: ServerAddress, shown: str, durability: Durability, timeout_s: float) -> ServerReport:
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
        durability=durability_of(config),
        min_replicas=int((config or {}).get("min-replicas-to-write", 0)),
    )
    found = (
        problems.mode_problem(bare),
        problems.version_problem(bare),
        problems.role_problem(bare),
        problems.policy_problem(bare),
        problems.durability_problem(bare, promised),
    )
    return dataclasses.replace(bare, problems=tuple(problem for problem in found if problem is not None))
