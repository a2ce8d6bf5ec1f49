"""Frozen models of a caller's input, whose every fault names field, limit and mend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from .checks import Check, type_fault
from .errors import SubagentLifecycleError
from .limits import NAME_MAX_CHARS


class Checked(BaseModel):
    """A frozen model whose faults are SubagentLifecycleErrors, whichever way it is made."""

    # Built at the first use: an application that imports the client may never launch.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    checks: ClassVar[Mapping[str, Check]] = {}  # one for each field

    if not TYPE_CHECKING:  # the signature that type checkers see is the one pydantic makes of the fields

        def __init__(self, /, **fields: object) -> None:
            known = type(self).model_fields  # a property that costs: once, not once for each key
            unknown = [key for key in fields if key not in known]
            if unknown:
                raise _unknown_fields(type(self), unknown)
            error = None
            try:
                super().__init__(**fields)
            except ValidationError as fault:
                error = _first_fault(fault)
            # Raised here and not above: the pydantic error, which holds the input, must not come along.
            if error is not None:
                raise error

    @field_validator("*", mode="before")
    @classmethod
    def _check(cls, value: object, info: ValidationInfo) -> object:
        field = info.field_name or ""
        return cls.checks[field](field, value)


def nested(kind: type[Checked]) -> Check:
    """A check for an optional model of this kind, given as one or as a mapping of its fields."""

    def check(field: str, value: object) -> Checked | None:
        if value is None or isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise type_fault(field, value, f"a {kind.__name__} or a mapping of its fields")
        return kind(**text_keys(cast("Mapping[object, object]", value)))

    return check


def text_keys(value: Mapping[object, object]) -> dict[str, Any]:
    """The mapping as keywords; a key that is no text is named like any other unknown field."""
    return {key if isinstance(key, str) else repr(type(key)): item for key, item in value.items()}


def _unknown_fields(kind: type[Checked], unknown: list[str]) -> SubagentLifecycleError:
    import difflib  # only here: a launch that is right need not pay for the import

    known = sorted(kind.model_fields)
    near = [match for key in unknown for match in difflib.get_close_matches(key, known, n=2)]
    shown = ", ".join(repr(key[:NAME_MAX_CHARS]) for key in unknown[:5])
    mend = f"use {' or '.join(dict.fromkeys(near))} instead" if near else "leave it out"
    return SubagentLifecycleError(
        f"is no field of {kind.__name__}: {shown}",
        field=unknown[0][:NAME_MAX_CHARS],
        limit=f"one of {', '.join(known)}",
        mend=mend,
    )


def _first_fault(error: ValidationError) -> SubagentLifecycleError:
    """The fault of the field that comes first, with its full place and without its input."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    ours = cast("object", fault.get("ctx", {}).get("error"))
    if isinstance(ours, SubagentLifecycleError):
        field = ours.field or place
        if not field.startswith(place):
            field = f"{place}.{field}"  # a nested model's own field
        return SubagentLifecycleError(ours.message, field=field, limit=ours.limit, mend=ours.mend)
    if fault["type"] == "missing":
        return SubagentLifecycleError("is missing", field=place, limit="required", mend=f"give a {place}")
    return SubagentLifecycleError(fault["msg"], field=place, limit=fault["type"], mend="give a valid value")
