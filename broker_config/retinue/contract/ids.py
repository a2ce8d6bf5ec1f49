"""Run ids, task ids, partitions, and the rules for the names that become part of keys.

A run id tells its partition (``sa-p07-...``), so that whoever holds an id can build the run's keys
without asking the store where it lives.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from base64 import b32encode
from typing import Final

from .checks import text
from .errors import SubagentLifecycleError
from .limits import AGENT_NAME_MAX_CHARS, SESSION_ID_MAX_CHARS, TENANT_MAX_CHARS

PARTITIONS: Final = 64
_ID_CHARS: Final = 26  # of base32: 16 bytes, 128 bits
_RUN_ID: Final = re.compile(r"sa-p([0-5][0-9]|6[0-3])-[a-z2-7]{26}", re.ASCII)
_TASK_ID: Final = re.compile(r"(sa-p(?:[0-5][0-9]|6[0-3])-[a-z2-7]{26})\.(0|[1-9][0-9]{0,14})", re.ASCII)
_TENANT: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_agent_text: Final = text(max_chars=AGENT_NAME_MAX_CHARS)
_tenant_text: Final = text(max_chars=TENANT_MAX_CHARS)
_session_text: Final = text(max_chars=SESSION_ID_MAX_CHARS)


def partition_of(tenant: str, session_id: str) -> int:
    """The partition (0 to 63) in which everything of a session lives."""
    return zlib.crc32(f"{tenant}\0{session_id}".encode()) % PARTITIONS


def new_run_id(partition: int) -> str:
    """A fresh id for a root run, with 128 random bits.

    Raises:
        ValueError: the partition is not within 0 to 63.
    """
    return _run_id(partition, secrets.token_bytes(16))


def seeded_run_id(partition: int, seed: str, n: int) -> str:
    """The id of a root run, derived from what its launch is known by.

    Whoever launches again with the same seed gets the same id, so the run is not started twice.

    Args:
        partition: 0 to 63.
        seed: Of the launch; never used for another one.
        n: The run within the launch.

    Raises:
        ValueError: the partition is not within 0 to 63.
    """
    return _run_id(partition, hashlib.sha256(f"{seed}:{n}".encode()).digest()[:16])


def child_run_id(parent_id: str, iteration: int, index: int, n: int) -> str:
    """The id of a child, derived from where it is launched, in its parent's partition.

    A parent that launches again after a crash gets the same id, so the child is not started twice.

    Args:
        parent_id: the launching run.
        iteration: the parent's iteration, from 1 on.
        index: the tool call within the iteration.
        n: the launch within the tool call.

    Raises:
        ValueError: parent_id is no run id.
    """
    place = f"{parent_id}:{iteration}:{index}:{n}".encode()
    return _run_id(partition_of_run(parent_id), hashlib.sha256(place).digest()[:16])


def partition_of_run(run_id: str) -> int:
    """The partition that a run id names.

    Raises:
        ValueError: the text is no run id.
    """
    match = _RUN_ID.fullmatch(run_id)
    if match is None:
        raise ValueError("not a run id: expected sa-p<00..63>-<26 characters of base32>")
    return int(match[1])


def is_run_id(value: object) -> bool:
    """Whether the value is a text of a run id's shape."""
    return isinstance(value, str) and _RUN_ID.fullmatch(value) is not None


def task_id(run_id: str, wakeup: int) -> str:
    """The Celery task id of a run's wake-up. Each number is used once, so a revoked id stays revoked."""
    return f"{run_id}.{wakeup}"


def parse_task_id(value: object) -> tuple[str, int] | None:
    """The run id and wake-up number in a Celery task id; None for a task that is not Retinue's."""
    match = _TASK_ID.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else (match[1], int(match[2]))


def validate_agent_name(value: object, *, field: str = "agent") -> str:
    """The name, if it is 1 to 64 characters, without control characters or outer blanks.

    Raises:
        SubagentLifecycleError: it is not; names field, limit and mend.
    """
    name = _agent_text(field, value)
    if name != name.strip() or _CONTROL.search(name):
        raise SubagentLifecycleError(
            "has control characters, or blanks at its ends",
            field=field,
            limit=f"1 to {AGENT_NAME_MAX_CHARS} printable characters",
            mend="give the name exactly as it is declared",
        )
    return name


def validate_tenant(value: object, *, field: str = "tenant") -> str:
    """The tenant, if it is 1 to 64 of letters, digits, ``_`` and ``-``.

    Raises:
        SubagentLifecycleError: it is not; names field, limit and mend.
    """
    tenant = _tenant_text(field, value)
    if _TENANT.fullmatch(tenant) is None:
        raise SubagentLifecycleError(
            "has other characters than letters, digits, _ and -",
            field=field,
            limit=f"1 to {TENANT_MAX_CHARS} of A-Z a-z 0-9 _ -",
            mend="use a short ASCII key for the tenant",
        )
    return tenant


def validate_session(value: object, *, field: str = "session_id") -> str:
    """The session id, if it is 1 to 128 characters without control characters and braces.

    Raises:
        SubagentLifecycleError: it is not; names field, limit and mend.
    """
    session = _session_text(field, value)
    # Braces mark the hash tag of a key: a brace in a name could move the key to another slot.
    if _CONTROL.search(session) or "{" in session or "}" in session:
        raise SubagentLifecycleError(
            "has control characters or braces",
            field=field,
            limit=f"1 to {SESSION_ID_MAX_CHARS} characters without control characters, {{ and }}",
            mend="use the key of the conversation or job, such as customer-42",
        )
    return session


def _run_id(partition: int, digest: bytes) -> str:
    if not 0 <= partition < PARTITIONS:
        raise ValueError(f"partition {partition} is not within 0 to {PARTITIONS - 1}")
    return f"sa-p{partition:02d}-{b32encode(digest).decode('ascii')[:_ID_CHARS].lower()}"
