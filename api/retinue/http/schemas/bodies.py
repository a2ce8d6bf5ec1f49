"""The bodies that watch, steer, stop and decide, each with the checks of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal, cast

from pydantic import ConfigDict, Field, JsonValue

from retinue.client.steps.steering import checked_reason, checked_steer_id
from retinue.contract import STEER_MAX_CHARS, SubagentLifecycleError
from retinue.contract.budget import CAP_CHECKS
from retinue.contract.checked import Checked
from retinue.contract.checks import Check, encoding_fault, optional, text, type_fault

WAIT_MAX_S: Final = 60.0
WAIT_S: Final = 30.0
RUNS_MAX: Final = 1_000
"""Most runs of one wait, or of one reading of results."""

REQUEST_ID_MAX_CHARS: Final = 100


def _reason(field: str, value: object) -> str:
    kept = checked_reason(value)
    wrong = encoding_fault(kept)
    if wrong is not None:
        limit = "text that can be written as UTF-8, without NUL"
        raise SubagentLifecycleError(wrong, field=field, limit=limit, mend="send other text")
    return kept


def _steer_id(_field: str, value: object) -> str:
    return checked_steer_id(value)


def _any_json(_field: str, value: object) -> object:
    return value


def _cap(check: Check) -> Check:
    def given(field: str, value: object) -> object:
        if value is None:
            raise type_fault(field, value, "what the cap is to be from now on")
        return check(field, value)

    return given


def _wait_seconds(field: str, value: object) -> float:
    limit = f"a number of seconds from 0 to {WAIT_MAX_S:.0f}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise type_fault(field, value, limit)
    if not 0 <= value <= WAIT_MAX_S:
        mend = "wait again where that was not enough"
        raise SubagentLifecycleError("is out of range", field=field, limit=limit, mend=mend)
    return float(value)


def _mode(field: str, value: object) -> str:
    if value in ("any", "all"):
        return cast("str", value)
    raise SubagentLifecycleError(
        "is no mode", field=field, limit="'any' or 'all'", mend="leave it out for all"
    )


def _runs(field: str, value: object) -> list[object]:
    limit = f"a list of 1 to {RUNS_MAX:,} run ids or handles"
    if not isinstance(value, list):
        raise type_fault(field, value, limit)
    given = cast("list[object]", value)
    if not 1 <= len(given) <= RUNS_MAX:
        raise SubagentLifecycleError(
            f"has {len(given):,} items", field=field, limit=limit, mend=f"give {limit}"
        )
    for at, item in enumerate(given):
        if not isinstance(item, str | Mapping):
            raise type_fault(f"{field}[{at}]", item, "a run id, or a handle as it was given")
    return given


class SteerBody(Checked):
    """A message for a run's next iteration. A repeated steer_id is the same message."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {
        "text": text(max_chars=STEER_MAX_CHARS),
        "steer_id": optional(_steer_id),
    }

    text: str = Field(repr=False)
    steer_id: str | None = None


class ReasonBody(Checked):
    """Why; its first 500 characters are kept."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {"reason": optional(_reason)}

    reason: str | None = Field(default=None, repr=False)


class ApproveBody(Checked):
    """Which request is approved."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {"request_id": text(max_chars=REQUEST_ID_MAX_CHARS)}

    request_id: str


class DenyBody(Checked):
    """Which request is denied, and why."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {
        "request_id": text(max_chars=REQUEST_ID_MAX_CHARS),
        "reason": optional(_reason),
    }

    request_id: str
    reason: str | None = Field(default=None, repr=False)


class AnswerBody(Checked):
    """Which request for input is answered, and with what: a text, or any JSON value."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {
        "request_id": text(max_chars=REQUEST_ID_MAX_CHARS),
        "value": _any_json,
    }

    request_id: str
    value: JsonValue = Field(repr=False)


class BudgetBody(Checked):
    """What caps of a run's own budget are to be from now on, in all and not in addition."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {name: _cap(check) for name, check in CAP_CHECKS.items()}

    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    usd: float | None = None
    tool_calls: int | None = None
    wall_seconds: float | None = None

    @property
    def caps(self) -> dict[str, object]:
        """Those that were given, by name."""
        return self.model_dump(exclude_unset=True)


class WaitBody(Checked):
    """Which runs are waited for, how many of them, and how long."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {
        "runs": _runs,
        "mode": _mode,
        "timeout_seconds": _wait_seconds,
    }

    runs: list[str | dict[str, JsonValue]]
    mode: Literal["any", "all"] = "all"
    timeout_seconds: float = WAIT_S


class ResultsBody(Checked):
    """Whose results are read."""

    model_config = ConfigDict(defer_build=False)
    checks: ClassVar[Mapping[str, Check]] = {"runs": _runs}

    runs: list[str | dict[str, JsonValue]]
