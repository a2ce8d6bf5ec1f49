"""What is wrong with a server, one function for each kind of fault; each says what mends it."""

from __future__ import annotations

from collections.abc import Mapping

from retinue.broker.server.durability import Durability
from retinue.broker.server.report import ServerDurability, ServerProblem, ServerReport, Severity

MIN_REDIS = (7, 0)
"""Scripts with flags (`#!lua flags=...`) came with Redis 7.0; every Valkey has them."""


def durability_of(config: Mapping[str, str] | None) -> ServerDurability:
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


def mode_problem(report: ServerReport) -> ServerProblem | None:
    if report.mode not in ("cluster", "sentinel"):
        return None
    return ServerProblem(
        Severity.ERROR,
        f"the server runs in {report.mode} mode, which cannot hold the store",
        "name a server of its own, with its replicas if need be",
    )


def version_problem(report: ServerReport) -> ServerProblem | None:
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


def role_problem(report: ServerReport) -> ServerProblem | None:
    if report.role not in ("slave", "replica"):
        return None
    return ServerProblem(
        Severity.ERROR, "the server is a replica, which refuses writes", "name its primary in the URL"
    )


def policy_problem(report: ServerReport) -> ServerProblem | None:
    if report.maxmemory_policy in ("noeviction", ""):
        return None
    return ServerProblem(
        Severity.ERROR,
        f"maxmemory-policy is {report.maxmemory_policy}, with which the server may delete runs",
        "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration file",
    )


def durability_problem(report: ServerReport, promised: Durability) -> ServerProblem | None:
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


def sentinel_problems(report: ServerReport, promised: Durability) -> tuple[ServerProblem, ...]:
    """What keeps Sentinel from a failover, or makes one lose writes; each a warning."""
    facts = report.sentinels
    if facts is None:
        return ()
    found: list[tuple[str, str]] = []
    if facts.answered < facts.named:
        found.append(
            (
                f"{facts.named - facts.answered} of the {facts.named} sentinels in the URL did not answer",
                "start them, or take them out of the URL",
            )
        )
    if facts.watching < 3:
        found.append(
            (
                f"{facts.watching} sentinel(s) watch {facts.service}: no failover once one of them is lost",
                "run three or more, each on a machine of its own",
            )
        )
    if report.replicas == 0:
        found.append(
            ("no replica is connected to the primary, so none can take over", "start one, with replicaof")
        )
    elif report.min_replicas == 0 and promised is not Durability.STRICT:
        found.append(
            (
                "min-replicas-to-write is 0: a primary that is cut off goes on taking writes, which are lost",
                "CONFIG SET min-replicas-to-write 1 on every server, or durability = strict",
            )
        )
    return tuple(ServerProblem(Severity.WARNING, message, mend) for message, mend in found)
