"""The handle of a run: the only thing a caller must keep, valid in every process and after restarts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, cast

from .checks import Check, choice, count, optional, text, type_fault
from .errors import SubagentLifecycleError
from .identity import Remembered
from .ids import is_run_id, validate_session
from .limits import CORRELATION_ID_MAX_CHARS, NAME_MAX_CHARS

CONTRACT_VERSION: Final = 1
_CAPABILITY_MAX_CHARS: Final = 200
_ORIGIN: Final = "pass on what to_dict() gave, unchanged"


class Role(StrEnum):
    """Whom a run may delegate to."""

    LEAF = "leaf"  # the sub-agents that its own declaration names
    ORCHESTRATOR = "orchestrator"  # any registered agent as well


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class SubagentHandle:
    """A reference to one run. Whoever holds it, in the owning session, can watch and control the run.

    The fields describe the run as it was at launch; SubagentStatus tells what is so now.
    """

    contract_version: int = CONTRACT_VERSION
    subagent_id: str  # the run's id
    parent_session_id: str  # the owner
    correlation_id: str | None
    created_at: float  # epoch seconds
    provider: str | None  # as advertised at launch; None = not known then
    model: str | None  # likewise
    role: Role  # the effective one, after the depth limit
    depth: int  # 0 = root run
    capability: str = field(repr=False)  # proves that Retinue made the handle: "v1.<key id>.<mac>"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, from which from_dict() makes an equal handle in any process."""
        return {**self.unsigned(), "capability": self.capability}

    def unsigned(self) -> dict[str, Any]:
        """Every field but the capability, as plain JSON values: what the MAC covers."""
        return {
            "contract_version": self.contract_version,
            "subagent_id": self.subagent_id,
            "parent_session_id": self.parent_session_id,
            "correlation_id": self.correlation_id,
            "created_at": self.created_at,
            "provider": self.provider,
            "model": self.model,
            "role": str(self.role),
            "depth": self.depth,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, object]) -> SubagentHandle:
        """The handle that to_dict() described. Whether it is genuine only a Keyring can tell.

        Args:
            value: exactly the keys of to_dict().

        Raises:
            SubagentLifecycleError: a key is missing or unknown, or a value has the wrong type or form.
        """
        return handle_of_checked(checked_fields(value))


def checked_fields(value: Mapping[str, object]) -> dict[str, Any]:
    """A handle's fields, each in its canonical form.

    Raises:
        SubagentLifecycleError: as for SubagentHandle.from_dict().
    """
    if not isinstance(cast("object", value), Mapping):
        raise type_fault("handle", value, "a SubagentHandle or the mapping of its fields")
    if value.keys() != _CHECKS.keys():
        missing = sorted(_CHECKS.keys() - value.keys())
        wrong = f"lacks {', '.join(missing)}" if missing else "has unknown fields"
        raise _fault("handle", wrong, "exactly the fields of to_dict()")
    return {key: check(place, value[key]) for key, (place, check) in _CHECKS.items()}


def handle_of_checked(fields: Mapping[str, Any]) -> SubagentHandle:
    """The handle of fields that checked_fields() has let through: it need not be checked again."""
    made = SubagentHandle(**fields)
    _well_formed.put(made, True)
    return made


def coerce_handle(value: object) -> SubagentHandle | None:
    """The value as a well-formed handle; None if it is not one. Never raises, whatever the value.

    Args:
        value: a handle, or the mapping of its fields. A handle is checked too, unless from_dict() made it:
            its class does not.
    """
    try:
        if isinstance(value, SubagentHandle):
            if _well_formed.get(value):
                return value
            return SubagentHandle.from_dict(value.to_dict())
        if isinstance(value, Mapping):
            return SubagentHandle.from_dict(cast("Mapping[str, object]", value))
    except Exception:
        # Wider than SubagentLifecycleError: a caller's own Mapping class may raise anything at all.
        return None
    return None


def _fault(place: str, wrong: str, limit: str) -> SubagentLifecycleError:
    return SubagentLifecycleError(wrong, field=place, limit=limit, mend=_ORIGIN)


def _contract_version(place: str, value: object) -> int:
    if type(value) is not int:
        raise type_fault(place, value, f"the integer {CONTRACT_VERSION}")
    if value != CONTRACT_VERSION:
        raise _fault(place, "is another version of the contract", f"exactly {CONTRACT_VERSION}")
    return value


def _subagent_id(place: str, value: object) -> str:
    if not is_run_id(value):
        raise _fault(place, "is no run id", "sa-p<00..63>-<26 characters of base32>")
    return cast("str", value)


def _session_id(place: str, value: object) -> str:
    return validate_session(value, field=place)


def _created_at(place: str, value: object) -> float:
    # An int is a float that went through a JSON writer that drops ".0".
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise type_fault(place, value, "epoch seconds (float)")
    try:
        at = float(value)
    except OverflowError:
        at = math.inf
    if not (math.isfinite(at) and at >= 0):
        raise _fault(place, "is no point in time", "finite epoch seconds, 0 or more")
    return at


_FIELD_CHECKS: Final[Mapping[str, Check]] = {
    "contract_version": _contract_version,
    "subagent_id": _subagent_id,
    "parent_session_id": _session_id,
    "correlation_id": optional(text(max_chars=CORRELATION_ID_MAX_CHARS)),
    "created_at": _created_at,
    "provider": optional(text(max_chars=NAME_MAX_CHARS)),
    "model": optional(text(max_chars=NAME_MAX_CHARS)),
    "role": choice(Role),
    "depth": count(min_count=0, max_count=1_000_000),
    "capability": text(max_chars=_CAPABILITY_MAX_CHARS),
}
_CHECKS: Final = {key: (f"handle.{key}", check) for key, check in _FIELD_CHECKS.items()}
_well_formed: Final = Remembered[bool]()
