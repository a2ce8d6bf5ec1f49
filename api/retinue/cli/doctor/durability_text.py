"""What `retinue doctor` says of a store's durability: what a crash or a failover may lose as things stand."""

from __future__ import annotations

from retinue.broker.server.durability import Durability
from retinue.broker.server.report import SentinelFacts, ServerDurability, ServerReport

_LEVELS = {
    ServerDurability.STRICT: (
        "the server syncs each write before it answers: a crash loses nothing that was acknowledged"
    ),
    ServerDurability.EVERYSEC: (
        "the server syncs once a second: a crash of its process loses nothing, of its machine the last second"
    ),
    ServerDurability.NONE: "the server syncs nothing: its crash loses whatever its last snapshot lacks",
    ServerDurability.UNKNOWN: "the server does not tell how it syncs, so what its crash loses is unknown",
}


def durability_text(report: ServerReport, promised: Durability) -> str:
    """The level that holds on the server, and what its replicas make of it, in one line.

    Args:
        report: Of a server that can be reached.
        promised: What the settings promise.
    """
    parts = [f"{report.durability}: {_LEVELS[report.durability]}", _replicas(report, promised)]
    if report.sentinels is not None:
        parts.append(_sentinels(report.sentinels))
    return "; ".join(parts)


def _replicas(report: ServerReport, promised: Durability) -> str:
    if report.replicas == 0 and report.sentinels is None:
        return "no replica"
    count = f"{report.replicas} replica{'' if report.replicas == 1 else 's'}"
    if promised is Durability.STRICT:
        loss = "a launch, cancel, decision or end counts once one of them has it"
    else:
        loss = "a failover loses what they had not seen yet"
    return f"{count} connected, min-replicas-to-write {report.min_replicas}: {loss}"


def _sentinels(facts: SentinelFacts) -> str:
    return (
        f"{facts.answered} of {facts.named} sentinels answer for {facts.service}: {facts.watching} watch it, "
        f"quorum {facts.quorum}, {facts.replicas} replicas known"
    )
