"""Dead letters: runs that were given up because their processes were lost again and again."""

from __future__ import annotations

from typing import Any, Final

from retinue.contract import partition_of_run
from retinue.contract.classification import ErrorClassification
from retinue.contract.dead_letter import DeadLetter
from retinue.store import keys
from retinue.store.call import RunKey, ScriptCall, mapping, text
from retinue.store.scripts import script

KEPT_S: Final = 7 * 24 * 3600
"""How long a dead letter is kept, in seconds."""

MOST_KEPT: Final = 1_000
"""Dead letters of a tenant in one partition, and so of one session; the oldest go first."""


def read_letters(
    tenant: str, partition: int, *, session_id: str | None = None, most: int = MOST_KEPT
) -> ScriptCall[list[DeadLetter]]:
    """A tenant's dead letters in a partition, newest first, without their requests.

    Args:
        session_id: Of this session only; None = of all.
        most: Longest answer.
    """
    argv = (keys.tenant_prefix(tenant, partition), session_id or "", most, "")
    return ScriptCall(script("read_dead"), (keys.dead_letters(tenant, partition),), argv, _letters)


def read_letter(run: RunKey, *, session_id: str | None = None) -> ScriptCall[DeadLetter | None]:
    """A run's dead letter, with its request; None = there is none (any more), or it is another session's."""

    def parse(reply: Any) -> DeadLetter | None:
        return next(iter(_letters(reply)), None)

    partition = partition_of_run(run.run_id)
    argv = (keys.tenant_prefix(run.tenant, partition), session_id or "", 1, run.run_id)
    return ScriptCall(script("read_dead"), (keys.dead_letters(run.tenant, partition),), argv, parse)


def discard(run: RunKey, *, session_id: str | None = None) -> ScriptCall[bool]:
    """Throws a dead letter away; False = there is none (any more), or it is another session's."""

    def parse(reply: Any) -> bool:
        return text(reply[0]) == "DISCARDED"

    partition = partition_of_run(run.run_id)
    argv = (keys.tenant_prefix(run.tenant, partition), session_id or "", run.run_id)
    return ScriptCall(script("discard"), (keys.dead_letters(run.tenant, partition),), argv, parse)


def _letters(reply: Any) -> list[DeadLetter]:
    return [_letter(text(run_id), mapping(fields)) for run_id, fields in reply]


def _letter(run_id: str, fields: dict[str, str]) -> DeadLetter:
    return DeadLetter(
        run_id=run_id,
        session_id=fields["sess"],
        agent=fields["ag"],
        error_classification=ErrorClassification(fields["cls"]),
        losses=int(fields["ls"]),
        iteration=int(fields["im"]),
        created_at=int(fields["cr"]) / 1000,
        ended_at=int(fields["fi"]) / 1000,
        root_id=fields["root"],
        parent_id=fields["par"] or None,
        launch_json=fields.get("req"),
    )
